"""Secrets in the keyring of the system, through the package `keyring`, which is imported when a store is opened.

A value of up to 1,200 characters that the person named is in the keyring; a longer one is in an encrypted file, because
Windows' keyring holds 2,560 bytes of UTF-16, and so is every token of a sign-in, because tokens need the lock and the
atomic replacement of files. Where a secret is in both, the file counts.

Keyrings can't list what they hold, so an empty file marks each name. A backend talks to another process, which may ask
the person to unlock it, raise anything or never answer: each call has a bounded time, and after one that took too long
the keyring is not asked again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.encrypted_files import MARK, EncryptedFileStore
from codemode_server.secrets.store import is_reference_name

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "codemode-server"
MAX_CHARACTERS = 1_200
_TIMEOUT_S = 30.0
"""The person may have to unlock the keyring."""
_USE_FILES = "set PYTHON_KEYRING_BACKEND=keyring.backends.fail.Keyring to use encrypted files instead"

T = TypeVar("T")


def open_store(state_folder: Path) -> EncryptedFileStore:
    """The keyring of this system, or encrypted files where there is none that can be used."""
    try:
        keyring = _bounded(_usable_keyring, _TIMEOUT_S)
    except _Failed:
        keyring = None
    return EncryptedFileStore(state_folder) if keyring is None else KeyringStore(state_folder, keyring)


class KeyringStore(EncryptedFileStore):
    def __init__(self, state_folder: Path, keyring: KeyringBackend, *, timeout_s: float = _TIMEOUT_S) -> None:
        super().__init__(state_folder)
        self._keyring = keyring
        self._timeout_s = timeout_s
        self._hung: SecretUnavailable | None = None

    @property
    def description(self) -> str:
        return f"the keyring of this system ({self._keyring.name})"

    def where(self, name: str) -> str:
        return super().where(name) if name in super().names() else self.description

    def get(self, name: str) -> str | None:
        value = super().get(name)
        if value is not None or not is_reference_name(name):
            return value
        return self._ask(lambda: self._keyring.get_password(SERVICE, name), name)

    def set(self, name: str, value: str) -> None:
        if len(value) > MAX_CHARACTERS or not is_reference_name(name):
            super().set(name, value)  # it counts from here on
            self._remove_from_keyring(name)
        else:
            self._mark(name)
            self._ask(lambda: self._keyring.set_password(SERVICE, name, value), name)
            super().remove(name)

    def remove(self, name: str) -> bool:
        was_in_keyring = self._remove_from_keyring(name)
        return super().remove(name) or was_in_keyring

    def names(self) -> list[str]:
        return sorted({*super().names(), *self._names(MARK)})

    def _remove_from_keyring(self, name: str) -> bool:
        is_there = is_reference_name(name) and (
            self._ask(lambda: self._keyring.get_password(SERVICE, name), name) is not None
        )
        if is_there:
            self._ask(lambda: self._keyring.delete_password(SERVICE, name), name)
        self._remove(self._path(MARK, name))
        return is_there

    def _ask(self, call: Callable[[], T], name: str) -> T:
        if self._hung is not None:
            raise self._hung
        try:
            return _bounded(call, self._timeout_s)
        except _Failed as failure:
            error = SecretUnavailable(
                f"{self.description} can't be used for the secret {name!r}: {failure}; unlock it, or {_USE_FILES}"
            )
            if failure.is_timeout:
                self._hung = error
            raise error from None


class _Failed(Exception):
    def __init__(self, message: str, *, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout


def _bounded(call: Callable[[], T], timeout_s: float) -> T:
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # noqa: BLE001 - backends come from other packages
            outcome.set_exception(error)

    threading.Thread(target=run, name="keyring", daemon=True).start()
    wait([outcome], timeout_s)
    if not outcome.done():
        raise _Failed(f"it did not answer in {timeout_s:.0f} s", is_timeout=True)
    try:
        return outcome.result()
    except Exception as error:  # noqa: BLE001 - as above; not its text, which might hold the value
        raise _Failed(f"it failed with {type(error).__name__}") from None


def _usable_keyring() -> KeyringBackend | None:
    import keyring

    found = keyring.get_keyring()
    with suppress(Exception):
        # Below 1 are the null and the fail backend, and files that are not encrypted.
        if found.priority >= 1:
            return found
    return None
