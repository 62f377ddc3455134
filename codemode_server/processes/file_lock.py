"""Locks between processes, on files; the system takes a lock back when the process that has it is dead."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.1


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Waited for. Held by one process at a time, and by those that inherit the descriptor that this gives; on Windows a
    lock is not inherited.

    Raises:
        OSError: the file can't be made or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if sys.platform == "win32":
            # `LK_LOCK` gives up after ten seconds.
            while (is_ours := try_lock(descriptor)) is False:
                time.sleep(_POLL_SECONDS)
            if is_ours is None:
                raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file if nobody else has; False if another process has, None if there are no locks here."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
