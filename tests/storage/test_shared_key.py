"""`state.key`: servers that share it read what the others encrypted, and no key file is made.

The ciphers are driven directly, and the settings through a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.config import load
from codemode_server.domain.errors import JournalUnavailable, SettingsError
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.token_cipher import TokenCipher
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable, derived_key

SECRET, OTHER = "s" * 40, "o" * 40


def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("cipher", [JournalCipher, TokenCipher])
def test_two_servers_with_one_key_read_each_others_values(tmp_path: Path, cipher: type[JournalCipher]) -> None:
    one, other = folders(tmp_path)
    sealed = cipher(one, SECRET).encrypt(b"value", "place")
    assert cipher(other, SECRET).decrypt(sealed, "place") == b"value"
    assert cipher(one, SECRET).fingerprint(b"v", "p") == cipher(other, SECRET).fingerprint(b"v", "p")
    assert [*one.iterdir(), *other.iterdir()] == [], "no key is written"


@pytest.mark.parametrize(("before", "after"), [(SECRET, OTHER), (None, SECRET)], ids=["changed", "set later"])
def test_what_another_key_encrypted_says_what_to_do(tmp_path: Path, before: str | None, after: str) -> None:
    sealed = JournalCipher(tmp_path, before).encrypt(b"value", "place")
    with pytest.raises(ValueUnreadable, match=r"^state\.key was another one when it was encrypted, or was not set"):
        JournalCipher(tmp_path, after).decrypt(sealed, "place")
    assert JournalCipher(tmp_path, before).decrypt(sealed, "place") == b"value", "set back, it can be read"


def test_without_a_shared_key_two_folders_have_keys_of_their_own(tmp_path: Path) -> None:
    """The control."""
    one, other = folders(tmp_path)
    with pytest.raises(ValueUnreadable, match="restore that file"):
        JournalCipher(other).decrypt(JournalCipher(one).encrypt(b"value", "place"), "place")


def test_each_purpose_has_a_key_of_its_own() -> None:
    purposes = ("journal.key", "privacy.key", "sessions", "request states")
    assert len({derived_key(SECRET, it) for it in purposes} | {derived_key(OTHER, it) for it in purposes}) == 8
    assert {len(derived_key(SECRET, it)) for it in purposes} == {32}


def test_a_command_that_resolves_no_references_says_so_instead_of_using_another_key(tmp_path: Path) -> None:
    cipher: PrivateCipher = JournalCipher(tmp_path, "${keyring:codemode-key}")
    with pytest.raises(JournalUnavailable, match="a reference that only the server resolves"):
        cipher.encrypt(b"value", "place")


def written(tmp_path: Path, key: str) -> Path:
    path = tmp_path / "upstream.yaml"
    path.write_text(json.dumps({"state": {"dir": str(tmp_path / "state"), "key": key}}))
    return path


def test_the_key_is_a_secret(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, "${CODEMODE_KEY}"), environ={"CODEMODE_KEY": SECRET}, cwd=tmp_path)
    assert loaded.settings.state.key == SECRET
    assert SECRET in loaded.secrets, "it is masked wherever text leaves"
    assert SECRET not in repr(loaded)


def test_a_short_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"state\.key: must have at least 32 characters") as caught:
        load(written(tmp_path, "hunter2-hunter2"), environ={}, cwd=tmp_path)
    assert "hunter2" not in str(caught.value)
