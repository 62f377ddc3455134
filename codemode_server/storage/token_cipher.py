"""The cipher of privacy tokens."""

from __future__ import annotations

from pathlib import Path

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.support.private_cipher import PrivateCipher

KEY_NAME = "privacy.key"


class TokenCipher(PrivateCipher):
    """Encrypts the values of privacy tokens. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "what they stand for"
        super().__init__(folder / KEY_NAME, "the key of the privacy tokens", lost, JournalUnavailable, secret)
