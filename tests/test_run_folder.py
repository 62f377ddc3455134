"""A folder with a lock is found once its process is dead, and by one other process only; nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codemode_server import temporary
from codemode_server.processes.run_folder import RunFolder, abandoned

KILLED = """
import os, sys, pathlib
from codemode_server import temporary
from codemode_server.processes.run_folder import RunFolder
own = RunFolder.make(pathlib.Path(sys.argv[1]), "run-")
(own.path / "file").write_text("x")
os.kill(os.getpid(), 9)
"""


def leave(parent: Path) -> Path:
    """What a process leaves that makes a folder and is killed."""
    before = set(parent.iterdir())
    subprocess.run([sys.executable, "-c", KILLED, str(parent)], check=False, timeout=60)
    (left,) = set(parent.iterdir()) - before
    return left


def test_the_folder_of_a_killed_process_is_found_and_removed(tmp_path: Path) -> None:
    left = leave(tmp_path)
    (found,) = abandoned(tmp_path, "run-")
    assert found.path == left
    found.remove()
    assert not left.exists()


def test_a_living_process_keeps_its_folder(tmp_path: Path) -> None:
    own = RunFolder.make(tmp_path, "run-")
    assert list(abandoned(tmp_path, "run-")) == []
    own.release()
    assert [found.path for found in abandoned(tmp_path, "run-")] == [own.path], "control: without the lock it is found"


def test_two_that_look_find_each_folder_once(tmp_path: Path) -> None:
    leave(tmp_path)
    first = list(abandoned(tmp_path, "run-"))
    assert (len(first), list(abandoned(tmp_path, "run-"))) == (1, [])


@pytest.mark.parametrize("name", ["other-0123456789abcdef", "run-0123456789abcdeg", "run-", "run-0123456789abcdef0"])
def test_a_folder_of_another_name_is_left_alone(tmp_path: Path, name: str) -> None:
    leave(tmp_path).rename(tmp_path / name)
    assert list(abandoned(tmp_path, "run-")) == []


def test_a_link_is_left_alone(tmp_path: Path) -> None:
    left = leave(tmp_path)
    left.rename(tmp_path / "elsewhere")
    left.symlink_to("elsewhere")
    assert list(abandoned(tmp_path, "run-")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    left = leave(tmp_path)
    os.chown(left, 65_534, 65_534)
    assert list(abandoned(tmp_path, "run-")) == []


def test_a_folder_whose_process_is_about_to_lock_it_is_left_alone_and_an_old_empty_one_is_removed(
    tmp_path: Path,
) -> None:
    new, old = tmp_path / "run-0000000000000000", tmp_path / "run-0000000000000001"
    new.mkdir()
    old.mkdir()
    os.utime(old, (0, 0))
    assert list(abandoned(tmp_path, "run-")) == []
    assert (new.exists(), old.exists()) == (True, False)


def test_only_its_user_may_look_into_it(tmp_path: Path) -> None:
    assert RunFolder.make(tmp_path).path.stat().st_mode & 0o777 == 0o700


def test_it_is_removed_when_it_is_empty_and_stays_when_it_is_not(tmp_path: Path) -> None:
    own = RunFolder.make(tmp_path)
    (own.path / "file").touch()
    assert not own.remove_if_empty()
    (own.path / "file").unlink()
    assert own.remove_if_empty()
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_removed_is_left_to_a_later_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = RunFolder.make(tmp_path)
    (own.path / "file").touch()
    with monkeypatch.context() as patch:
        patch.setattr("codemode_server.untrusted_files.remove_entry", lambda entry: False)
        own.remove()
    assert (own.path / "file").exists(), "control"
    (found,) = abandoned(tmp_path)
    found.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_end_leaves_the_rest_to_a_later_process(tmp_path: Path) -> None:
    left = leave(tmp_path)
    for number in range(5):
        (left / str(number)).write_text("x")
    (found,) = abandoned(tmp_path, "run-")
    answers = iter([False, False, True])
    assert not found.remove(lambda: next(answers))
    assert (left / "lock").exists()
    assert 4 <= len(list(left.iterdir())) - 1 <= 5, "of six files, and the lock, two were come to"
    (found,) = abandoned(tmp_path, "run-")
    assert found.remove(), "control"
    assert not left.exists()


def test_a_sweep_of_temporary_folders_ends_with_the_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    left = [leave(tmp_path) for _ in range(3)]
    for folder in left:
        folder.rename(folder.with_name(folder.name.replace("run-", "codemode-")))
    assert temporary.sweep(lambda: True) == 0
    assert len(list(tmp_path.glob("codemode-*/file"))) == 3
    assert temporary.sweep(seconds=0) == 0
    assert temporary.sweep() == 3, "control"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_removes_meanwhile_is_passed_over(tmp_path: Path) -> None:
    """Two products that start at once look through the same folders."""
    first, second = (RunFolder.make(tmp_path) for _ in range(2))
    paths = sorted([first.path, second.path])
    for folder in (first, second):
        folder.release()
    found = abandoned(tmp_path)
    taken = next(found)
    assert taken.path == paths[0]
    (paths[1] / "lock").unlink()
    paths[1].rmdir()
    assert list(found) == []
    taken.remove()
