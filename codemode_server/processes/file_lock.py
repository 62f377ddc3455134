"""Locks between processes, on files; the system releases the lock of a process that is dead."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

_POLL_S = 0.05


@contextmanager
def held(path: Path, *, timeout_s: float | None = None) -> Iterator[int]:
    """Wait for the lock on a private file and hold it. Processes that inherit the descriptor hold it too, for as long
    as they live (not on Windows): `filelock.FileLock` would unlock the file for them as well.

    Raises:
        OSError: the file can't be made or locked.
        TimeoutError: it was not free within `timeout_s`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        _lock(descriptor, timeout_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, timeout_s: float | None) -> None:
    if timeout_s is None:
        lock_descriptor(descriptor)
        return
    end = time.monotonic() + timeout_s
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= end:
            raise TimeoutError
        time.sleep(_POLL_S)
