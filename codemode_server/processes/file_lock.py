"""Locks between processes, on files; the system releases the lock of a process that is dead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Wait for the lock on a private file and hold it. Processes that inherit the descriptor hold it too, for as long
    as they live (not on Windows): `filelock.FileLock` would unlock the file for them as well.

    Raises:
        OSError: the file can't be made or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        lock_descriptor(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
