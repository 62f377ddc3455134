"""Locks between processes, on files, and folders that belong to one process.

The system releases the lock of a process that is dead. So a folder of the right name whose lock can be had was left
behind by a process that was killed, and another one may take it over and remove it. Where the system or the file system
has no such locks, nothing is ever taken over.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from codemode_server.support import untrusted_files

_POLL_S = 0.05
_LOCK = "lock"
_TRIES = 5
_SETTLED_SECONDS = 60.0
"""An empty folder of this age is not one whose process is about to lock it."""


@contextmanager
def held(path: Path, *, timeout_s: float | None = None) -> Iterator[int]:
    """Wait for the lock on a private file and hold it. Processes that inherit the descriptor hold it too, for as long
    as they live (not on Windows): `filelock.FileLock` would unlock the file for them as well. Raises `OSError` if the
    file can't be made or locked; `TimeoutError` if it was not free within `timeout_s`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if not _lock(descriptor, timeout_s):
            raise TimeoutError(f"another process holds the lock {path.name}")
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, timeout_s: float | None) -> bool:
    if timeout_s is None:
        return lock_descriptor(descriptor)
    end = time.monotonic() + timeout_s
    while not (has_lock := lock_descriptor(descriptor, blocking=False)) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return has_lock


class RunFolder:
    """A folder whose lock this process has."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    @property
    def name(self) -> str:
        return self.path.name

    @classmethod
    def make(cls, parent: Path, prefix: str = "", *, digits: int = 16) -> RunFolder:
        """A new private folder in `parent`, named by the prefix and so many random hexadecimal digits. Raises `OSError`
        if it can't be made."""
        for _ in range(_TRIES):
            path = parent / f"{prefix}{secrets.token_hex(digits // 2)}"
            path.mkdir(mode=0o700)
            try:
                lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except FileNotFoundError:
                continue  # taken for a leftover before it had its lock
            if _try_lock(lock) is not False and _is_there(lock, path):
                return cls(path, lock)
            os.close(lock)
        raise FileNotFoundError(f"each new folder in {parent} is removed at once")

    def remove(self, is_ending: Callable[[], bool] = lambda: False) -> bool:
        """Remove it with everything in it; gives whether it is gone. What can't be removed is left to a later process,
        and the rest once `is_ending`."""
        untrusted_files.empty(self.path, besides=_LOCK, is_ending=is_ending)
        if self.remove_if_empty():
            return True
        self.release()
        return False

    def remove_if_empty(self) -> bool:
        """Remove it unless something is in it; gives whether it is gone."""
        with suppress(OSError):
            if any(name != _LOCK for name in os.listdir(self.path)):  # noqa: PTH208 - the names only
                return False
        if sys.platform == "win32":
            self.release()  # a file that is open can't be removed there
        with suppress(OSError):
            (self.path / _LOCK).unlink()
        with suppress(OSError):
            self.path.rmdir()
        self.release()
        return True

    def release(self) -> None:
        """Give the lock back; the folder stays."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def abandoned(parent: Path, prefix: str = "", *, digits: int = 16) -> Iterator[RunFolder]:
    """The folders in `parent` that processes which are dead have made with `RunFolder.make`, taken over."""
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{{digits}}}")
    with suppress(OSError):
        for path in sorted(parent.iterdir()):
            if name.fullmatch(path.name) and (found := _taken_over(path)) is not None:
                yield found


def _taken_over(path: Path) -> RunFolder | None:
    try:
        status = path.lstat()
    except OSError:  # another product was quicker
        return None
    try:
        if not stat.S_ISDIR(status.st_mode) or not _is_ours(status):
            return None
        lock = os.open(path / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        if time.time() - status.st_mtime > _SETTLED_SECONDS:
            with suppress(OSError):
                path.rmdir()
        return None
    except OSError:
        return None
    if _try_lock(lock) and _is_there(lock, path):
        return RunFolder(path, lock)
    os.close(lock)
    return None


def _try_lock(lock: int) -> bool | None:
    """True if this process has the lock now; None if there are no locks here."""
    try:
        return lock_descriptor(lock, blocking=False)
    except OSError:
        return None


def _is_ours(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def _is_there(lock: int, path: Path) -> bool:
    """True if the lock is still the one in the folder: else another process has removed it meanwhile."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(lock), (path / _LOCK).lstat())
    return False
