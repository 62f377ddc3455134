"""Secrets in encrypted files: what is stored comes back, in this process and others, and nobody else can read or change
it. Driven on a real folder, with real processes where two are the point."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.encrypted_files import EncryptedFileStore

NAMES = ["github", "GitHub", "a.b-c_D", "oauth/local/my-server", "CON", "ends.", "../../x", "é", "x" * 200]


@pytest.fixture
def store(tmp_path: Path) -> EncryptedFileStore:
    return EncryptedFileStore(tmp_path / "state")


def value_file(store: EncryptedFileStore) -> Path:
    (path,) = store.folder.glob("value.*")
    return path


def test_values_of_all_names_come_back_and_are_listed(store: EncryptedFileStore) -> None:
    for name in NAMES:
        store.set(name, f"value of {name}")
    again = EncryptedFileStore(store.folder.parent)
    assert {name: again.get(name) for name in NAMES} == {name: f"value of {name}" for name in NAMES}
    assert again.names() == sorted(NAMES)


def test_folder_and_files_are_private_and_hold_no_value(store: EncryptedFileStore) -> None:
    store.set("github", "ghp_very_secret")
    files = list(store.folder.iterdir())
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert not any(b"ghp_very_secret" in path.read_bytes() for path in files)


@pytest.mark.parametrize("name", ["", "x" * 300, "Ä" * 60])
def test_a_name_that_no_file_can_have_is_refused(store: EncryptedFileStore, name: str) -> None:
    with pytest.raises(SecretUnavailable, match="can't be the name of a secret"):
        store.set(name, "x")


def test_a_value_that_is_too_long_is_refused_and_the_old_one_stays(store: EncryptedFileStore) -> None:
    store.set("github", "old")
    with pytest.raises(SecretUnavailable, match="more than 1,000,000 bytes"):
        store.set("github", "x" * 1_000_001)
    assert store.get("github") == "old"
    store.set("github", "x" * 1_000_000)
    assert store.get("github") == "x" * 1_000_000, "control"


def test_a_damaged_file_is_named_with_the_command_that_mends_it(store: EncryptedFileStore) -> None:
    store.set("github", "value")
    path = value_file(store)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(SecretUnavailable) as raised:
        store.get("github")
    assert str(path) in str(raised.value)
    assert "codemode-server secrets set github" in str(raised.value)
    store.set("github", "new")
    assert store.get("github") == "new"


def test_a_file_that_was_renamed_to_another_secret_is_not_taken_for_it(store: EncryptedFileStore) -> None:
    """Otherwise who can write files could have one server's token sent to another."""
    store.set("github", "value")
    value_file(store).rename(store.folder / "value.evil")
    with pytest.raises(SecretUnavailable, match="was changed"):
        store.get("evil")


class TestLinks:
    def test_a_value_behind_a_link_is_not_read(self, store: EncryptedFileStore, tmp_path: Path) -> None:
        store.set("github", "value")
        path = value_file(store)
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
        with pytest.raises(SecretUnavailable, match="is a link"):
            store.get("github")

    def test_a_folder_of_somebody_else_is_refused(self, store: EncryptedFileStore) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        store.set("github", "value")
        os.chown(store.folder, 1234, 1234)
        for use in (lambda: store.get("github"), lambda: store.set("github", "new"), store.names):
            with pytest.raises(SecretUnavailable, match="belongs to"):
                use()


class TestLocks:
    def test_another_holder_is_waited_for_and_then_named(self, store: EncryptedFileStore) -> None:
        impatient = EncryptedFileStore(store.folder.parent, lock_s=0.1)
        with store.lock("oauth/local/a"):
            with pytest.raises(SecretUnavailable, match="'oauth/local/a'"), impatient.lock("oauth/local/a"):
                pass
            with impatient.lock("oauth/local/b"):
                pass
            store.set("oauth/local/a", "the holder can write")
        with impatient.lock("oauth/local/a"):
            pass


def _increment(state: Path, times: int) -> None:
    store = EncryptedFileStore(state)
    for _ in range(times):
        with store.lock("counter"):
            store.set("counter", str(int(store.get("counter") or "0") + 1))


def test_two_processes_that_change_a_value_under_the_lock_lose_no_change(store: EncryptedFileStore) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_increment, args=(store.folder.parent, 25)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert store.get("counter") == "50"


SETS = """
import pathlib, sys
from codemode_server.secrets.encrypted_files import EncryptedFileStore
store = EncryptedFileStore(pathlib.Path(sys.argv[1]))
number = 0
while True:
    store.set("token", f"{number}:" + "x" * 200_000)
    print(number, flush=True)
    number += 1
"""


def test_a_process_killed_in_the_middle_of_set_leaves_the_old_value_or_the_new_one(
    store: EncryptedFileStore,
) -> None:
    command = [sys.executable, "-c", SETS, str(store.folder.parent)]
    for after in (1, 3, 6):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            done = [int(process.stdout.readline()) for _ in range(after)][-1]
            process.send_signal(signal.SIGKILL)
            done = max([done, *map(int, process.stdout.read().split())])
        number, _, rest = (store.get("token") or "").partition(":")
        assert int(number) in (done, done + 1)
        assert rest == "x" * 200_000
