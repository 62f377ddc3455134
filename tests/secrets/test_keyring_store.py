"""Which store is opened, and secrets in a keyring that works, raises or never answers.

The keyring is a fake at the seam of the package `keyring`: no desktop runs here. Files, names and locks are real.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyring as package
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked, PasswordDeleteError

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.secrets.keyring_store import MAX_CHARACTERS, SERVICE, KeyringStore, open_store


class MemoryKeyring:
    """A keyring as a desktop has one. It is no `KeyringBackend`: the package would offer it to later tests too."""

    name = "memory"
    priority = 5.0

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.values.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.values[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.values.pop((service, username), None) is None:
            raise PasswordDeleteError(username)


class PlaintextKeyring(MemoryKeyring):
    """As the one of keyrings.alt, which nobody recommends."""

    priority = 0.5


class RaisingKeyring(MemoryKeyring):
    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.error = error

    def get_password(self, service: str, username: str) -> str | None:
        raise self.error("holds ghp_very_secret")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise self.error(f"holds {password}")


class SilentKeyring(MemoryKeyring):
    """Waits for a person who is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.end = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self.end.wait()
        return None


@pytest.fixture
def files(tmp_path: Path) -> EncryptedFileStore:
    return EncryptedFileStore(tmp_path)


@pytest.fixture
def keyring() -> Any:
    return MemoryKeyring()


@pytest.fixture
def store(tmp_path: Path, keyring: Any) -> KeyringStore:
    return KeyringStore(tmp_path, keyring)


class TestWhichIsOpened:
    def test_a_keyring_that_the_package_recommends_is_used(
        self, tmp_path: Path, keyring: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(package, "get_keyring", lambda: keyring)
        store = open_store(tmp_path)
        store.set("github", "value")
        assert keyring.values == {(SERVICE, "github"): "value"}
        assert "keyring of this system" in store.description

    @pytest.mark.parametrize("backend", [NoKeyring, PlaintextKeyring])
    def test_without_one_the_encrypted_files_are(
        self, tmp_path: Path, backend: Callable[[], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(package, "get_keyring", backend)
        store = open_store(tmp_path)
        store.set("github", "value")
        assert (type(store), store.get("github")) == (EncryptedFileStore, "value")
        assert str(tmp_path) in store.description


def test_a_long_value_is_in_an_encrypted_file_and_a_short_one_takes_its_place(
    files: EncryptedFileStore, store: KeyringStore, keyring: Any
) -> None:
    store.set("key", "short")
    store.set("key", "x" * (MAX_CHARACTERS + 1))
    assert (store.get("key"), keyring.values) == ("x" * (MAX_CHARACTERS + 1), {})
    assert store.where("key") == files.where("key")
    store.set("key", "x" * MAX_CHARACTERS)
    assert (store.get("key"), files.get("key")) == ("x" * MAX_CHARACTERS, None)
    assert store.names() == ["key"]


def test_tokens_of_a_sign_in_never_reach_the_keyring(
    files: EncryptedFileStore, store: KeyringStore, keyring: Any
) -> None:
    store.set("oauth/local/linear", "token")
    assert (files.get("oauth/local/linear"), keyring.values) == ("token", {})


def test_a_removed_value_is_gone_from_both(store: KeyringStore, keyring: Any) -> None:
    store.set("short", "value")
    store.set("long", "x" * 5_000)
    assert (store.remove("short"), store.remove("long"), store.remove("short")) == (True, True, False)
    assert (keyring.values, store.names(), store.get("long")) == ({}, [], None)


@pytest.mark.parametrize("error", [KeyringLocked, TimeoutError])
def test_a_backend_that_raises_is_an_error_with_a_remedy_and_without_its_text(
    tmp_path: Path, files: EncryptedFileStore, error: type[Exception]
) -> None:
    raising: Any = RaisingKeyring(error)
    store = KeyringStore(tmp_path, raising)
    uses = (lambda: store.get("github"), lambda: store.set("github", "ghp_very_secret"), lambda: store.remove("github"))
    for use in uses:
        with pytest.raises(SecretUnavailable, match=f"{error.__name__}; unlock it, or set PYTHON_KEYRING") as raised:
            use()
        assert "ghp_very_secret" not in str(raised.value)
    files.set("github", "control")
    assert store.get("github") == "control"


def test_a_backend_that_never_answers_is_asked_once(tmp_path: Path) -> None:
    keyring: Any = SilentKeyring()
    store = KeyringStore(tmp_path, keyring, timeout_s=0.05)
    for _ in range(3):
        with pytest.raises(SecretUnavailable, match="did not answer in 0 s"):
            store.get("github")
    assert keyring.asked == 1
    keyring.end.set()
