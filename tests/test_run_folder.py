"""A folder with a lock is found once its process is dead, and by one other process only; nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codemode_server.processes.file_lock import RunFolder, abandoned

KILLED = """
import os, sys, pathlib
from codemode_server.support import temporary
from codemode_server.processes.file_lock import RunFolder
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
