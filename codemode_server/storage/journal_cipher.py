"""Encrypts the arguments, results, programs and errors of the journal; each value is bound to its row and column."""

from __future__ import annotations

from pathlib import Path

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.private_cipher import PrivateCipher

FILE_NAME = "journal.key"


class JournalCipher(PrivateCipher):
    """The cipher of the journal in one state folder. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder / FILE_NAME, "the journal's key", "arguments and results of past calls", JournalUnavailable
        )
