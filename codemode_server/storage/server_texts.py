"""Texts of servers as they are stored: compressed, and those of servers whose answers are searched for personal data
encrypted too, since they may name persons."""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable

logger = logging.getLogger(__name__)

KEY_NAME = "privacy.key"
_COMPRESSED = b"\x78"
"""How a text begins that is not encrypted."""


class TokenCipher(PrivateCipher):
    """Encrypts what may hold personal data in one state folder: the values of privacy tokens, and texts of servers.
    Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "what they stand for"
        super().__init__(folder / KEY_NAME, "the key of the privacy tokens", lost, JournalUnavailable, secret)


class ServerTexts:
    """Works in any thread."""

    def __init__(
        self, cipher: PrivateCipher | None = None, is_protected: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`is_protected`: whether the texts of the server of this name are to be encrypted, with `cipher`."""
        self._cipher = cipher
        self.is_protected = is_protected

    def sealed(self, server: str, text: str, place: str) -> bytes:
        """A text as it is stored; empty if the key can't be used."""
        data = zlib.compress(text.encode(errors="surrogatepass"), 1)
        if not self.is_protected(server):
            return data
        try:
            return self._cipher.encrypt(data, place) if self._cipher else b""
        except JournalUnavailable as error:
            logger.warning("the tools of %s can't be stored for next time: %s", server, error)
            return b""

    def opened(self, server: str, data: bytes, place: str) -> str:
        """A stored text; empty if it can't be read, whatever stands there."""
        try:
            if data and not data.startswith(_COMPRESSED):
                data = self._cipher.decrypt(data, place) if self._cipher else b""
            return zlib.decompress(data).decode(errors="surrogatepass") if data else ""
        except (JournalUnavailable, ValueUnreadable, zlib.error, AttributeError, TypeError, ValueError) as error:
            logger.warning("the tools of %s from last time can't be read: %s", server, error)
            return ""

    def change_plain(self, connection: sqlite3.Connection, servers: str, statement: str) -> None:
        """Run a statement for each protected one of the selected servers, with its name and how a text begins that is
        not encrypted."""
        for (server,) in connection.execute(servers).fetchall():
            if self.is_protected(server):
                connection.execute(statement, (server, _COMPRESSED))
