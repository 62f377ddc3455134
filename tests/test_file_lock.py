"""A lock is waited for, for as long as another process has it; where there are none, that is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import lock_descriptor

from codemode_server.processes.file_lock import held

HOLDS = """
import pathlib, sys
from codemode_server.processes.file_lock import held
with held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def is_free(path: Path) -> bool:
    with path.open("r+") as file:
        return lock_descriptor(file.fileno(), blocking=False)


def test_it_is_had_once_the_other_process_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert not is_free(path), "control"
        other.kill()
        with held(path):
            pass


def test_a_process_that_inherits_the_descriptor_keeps_the_lock(tmp_path: Path) -> None:
    """The compiler of the sandbox goes on when the product that started it ends: no second one may start beside it."""
    path = tmp_path / "lock"
    with held(path) as descriptor:
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    with other:
        assert not is_free(path)
        other.kill()
        other.wait()
        assert is_free(path), "control"


def test_the_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "lock", tmp_path / "link"
    with held(path):
        assert path.stat().st_mode & 0o777 == 0o600
    link.symlink_to(path)
    with pytest.raises(OSError, match="link"), held(link):
        pass
