"""A lock is waited for, for as long as another process has it; where there are none, that is an error.

Windows is imitated: its C function gives up at once or after ten seconds, and compiling the sandbox takes longer.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from codemode_server.processes import file_lock

HOLDS = """
import pathlib, sys
from codemode_server.processes.file_lock import held
with held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_it_is_had_once_the_other_process_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with path.open("r+") as file:
            assert file_lock.try_lock(file.fileno()) is False, "control"
        other.kill()
        with file_lock.held(path):
            pass


@pytest.fixture
def locking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Imitate Windows, where locking fails with these errors, one after the other, and then succeeds; gives the waits
    between."""

    def imitate(*errors: OSError) -> list[float]:
        left, waits = list(errors), list[float]()

        def lock(descriptor: int, mode: str, count: int) -> None:
            assert (mode, count) == ("at once", 1)
            if left:
                raise left.pop(0)

        monkeypatch.setattr(file_lock, "sys", SimpleNamespace(platform="win32"))
        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK="at once", locking=lock))
        monkeypatch.setattr(file_lock, "time", SimpleNamespace(sleep=waits.append))
        return waits

    return imitate


def test_on_windows_it_is_waited_for_longer_than_the_ten_seconds_of_its_own_function(
    tmp_path: Path, locking: Callable[..., list[float]]
) -> None:
    waits = locking(*[PermissionError(13, "locked")] * 700)
    with file_lock.held(tmp_path / "lock"):
        assert sum(waits) > 60


def test_on_windows_a_disk_without_locks_is_an_error(tmp_path: Path, locking: Callable[..., list[float]]) -> None:
    waits = locking(OSError(22, "invalid"))
    with pytest.raises(OSError, match="lock"), file_lock.held(tmp_path / "lock"):
        pass
    assert waits == []
