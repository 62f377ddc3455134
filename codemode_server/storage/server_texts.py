"""Texts of servers as they are stored: compressed, and encrypted, since they may name persons."""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable

logger = logging.getLogger(__name__)

KEY_NAME = "privacy.key"


class TokenCipher(PrivateCipher):
    """Encrypts what may hold personal data in one state folder: the values of privacy tokens, and texts of servers.
    Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "what they stand for"
        super().__init__(folder / KEY_NAME, "the key of the privacy tokens", lost, JournalUnavailable, secret)


class ServerTexts:
    """Works in any thread."""

    def __init__(self, cipher: PrivateCipher) -> None:
        self._cipher = cipher

    def sealed(self, server: str, text: str, place: str) -> bytes:
        """A text as it is stored; empty if the key can't be used."""
        try:
            return self._cipher.encrypt(zlib.compress(text.encode(errors="surrogatepass"), 1), place)
        except JournalUnavailable as error:
            logger.warning("the tools of %s can't be stored for next time: %s", server, error)
            return b""

    def opened(self, server: str, data: bytes, place: str) -> str:
        """A stored text; empty if it can't be read, whatever stands there."""
        try:
            return zlib.decompress(self._cipher.decrypt(data, place)).decode(errors="surrogatepass") if data else ""
        except (JournalUnavailable, ValueUnreadable, zlib.error, AttributeError, TypeError, ValueError) as error:
            logger.warning("the tools of %s from last time can't be read: %s", server, error)
            return ""
