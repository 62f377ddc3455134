"""Encrypts values with a key in a private file, or with one that is derived from a secret which replicas share.

It uses AES-256-GCM. A value is bound to its place, such as a row and column: moved to another place it cannot be
decrypted. `cryptography` is imported when the first value is encrypted, not before the host has its handshake.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from codemode_server.domain.errors import CodemodeError
from codemode_server.support.private_files import NotPrivate, open_private, private_folder, replace_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY_BYTES = 32
_FORMAT = b"\x01"
_KEY_ID_BYTES, _NONCE_BYTES = 8, 12


def derived_key(secret: str, purpose: str) -> bytes:
    """32 bytes for one purpose (HKDF with SHA-256): whoever learns them learns neither the secret nor those of another
    purpose. Raises `ValueError`: the secret is a reference that was not resolved."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if "${" in secret:
        raise ValueError("state.key is a reference that only the server resolves; give it as a variable, ${NAME}")
    info = _encoded(f"codemode-server/{purpose}")
    return HKDF(SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(_encoded(secret))


class ValueUnreadable(Exception):
    """Raised for a value that can't be decrypted; the message says why."""


class PrivateCipher:
    """Works in any thread. The key is read, or created, at the first use."""

    def __init__(
        self, path: Path, title: str, lost: str, unavailable: type[CodemodeError], secret: str | None = None
    ) -> None:
        """`path` is the file of the key; with a `secret` the key is derived from that and the name of the file, which
        is not read. For messages: `title` is what the key is called, and `lost` what can't be read without it.
        `unavailable` is raised by all methods where the key can't be used."""
        self.path = path
        self._secret = secret
        self._title = title
        self._lost = lost
        self._unavailable = unavailable
        self._lock = threading.Lock()
        self._loaded: tuple[bytes, AESGCM, bytes] | None = None

    def encrypt(self, data: bytes, place: str) -> bytes:
        """Encrypt a value. `place` names where it is stored; `decrypt` needs the same."""
        key_id, cipher, _ = self._key()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _FORMAT + key_id + nonce + cipher.encrypt(nonce, data, _encoded(place))

    def decrypt(self, data: bytes, place: str) -> bytes:
        """The value that `encrypt` was called with for this place. Raises `ValueUnreadable` if the key is another one,
        or the value was changed."""
        from cryptography.exceptions import InvalidTag

        key_id, cipher, _ = self._key()
        if data[:1] != _FORMAT:
            raise ValueUnreadable("it was written by a newer codemode-server")
        if data[1 : 1 + _KEY_ID_BYTES] != key_id:
            if self._secret is not None:
                raise ValueUnreadable("state.key was another one when it was encrypted, or was not set; set it back")
            raise ValueUnreadable(f"the key that encrypted it is no longer in {self.path}; restore that file")
        start = len(_FORMAT) + _KEY_ID_BYTES
        nonce, rest = data[start : start + _NONCE_BYTES], data[start + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, rest, _encoded(place))
        except (InvalidTag, ValueError):  # a ValueError where the nonce is cut
            raise ValueUnreadable("it was changed after it was recorded") from None

    def fingerprint(self, data: bytes, purpose: str) -> bytes:
        """The same bytes for the same data and purpose, which tell nothing about the data to whoever lacks the key."""
        _, _, secret = self._key()
        own = hmac.digest(secret, _encoded(f"fingerprint/{purpose}"), "sha256")
        return hmac.digest(own, data, "sha256")

    def _key(self) -> tuple[bytes, AESGCM, bytes]:
        with self._lock:
            if self._loaded is None:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM

                key = self._read_or_make() if self._secret is None else self._derive(self._secret)
                self._loaded = hashlib.sha256(key).digest()[:_KEY_ID_BYTES], AESGCM(key), key
            return self._loaded

    def _derive(self, secret: str) -> bytes:
        try:
            return derived_key(secret, self.path.name)
        except ValueError as error:
            raise self._unavailable(str(error)) from None

    def _read_or_make(self) -> bytes:
        try:
            private_folder(self.path.parent, is_readable=True)
            try:
                key = self._read()
            except FileNotFoundError:  # of two products that start at once, one makes the key for both
                replace_private(self.path, secrets.token_bytes(_KEY_BYTES), keeps_existing=True)
                key = self._read()
        except (OSError, NotPrivate) as error:
            raise self._unavailable(f"{self._title} {self.path} can't be used: {error}") from error
        if len(key) != _KEY_BYTES:
            raise self._unavailable(
                f"{self._title} {self.path} is damaged. Restore it from a backup, or move it away, and a new one is "
                f"made; {self._lost} can't be read then."
            )
        return key

    def _read(self) -> bytes:
        with os.fdopen(open_private(self.path, os.O_RDONLY), "rb") as file:
            return file.read(_KEY_BYTES + 1)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
