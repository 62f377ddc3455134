"""Compresses texts of servers and encrypts them, since they may name persons."""

from __future__ import annotations

import logging
import zlib

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable

logger = logging.getLogger(__name__)


class SealedTexts:
    """Works in any thread."""

    def __init__(self, cipher: PrivateCipher) -> None:
        self._cipher = cipher

    def sealed(self, server: str, text: str, place: str) -> bytes:
        """The text, compressed and encrypted; empty if the key can't be used."""
        try:
            return self._cipher.encrypt(zlib.compress(text.encode(errors="surrogatepass"), 1), place)
        except JournalUnavailable as error:
            logger.warning("the tools of %s can't be stored for next time: %s", server, error)
            return b""

    def opened(self, server: str, data: bytes, place: str) -> str:
        """The text of `sealed`; empty for anything else. Raises `JournalUnavailable`: the key can't be used."""
        try:
            return zlib.decompress(self._cipher.decrypt(data, place)).decode(errors="surrogatepass") if data else ""
        except (ValueUnreadable, zlib.error, AttributeError, TypeError, ValueError) as error:
            logger.warning("the tools of %s from last time can't be read: %s", server, error)
            return ""
