"""The temporary folders of this process, in one folder of its own, which a later product removes if it was killed."""

from __future__ import annotations

import atexit
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.support import untrusted_files

_PREFIX = "codemode-"
_SWEEP_SECONDS = 60.0
_guard = threading.Lock()
_own: RunFolder | None = None


def make(purpose: str) -> Path:
    """A new, empty, private folder, whose name begins with its purpose. Whoever makes it calls `remove` for it."""
    global _own
    with _guard:
        place = Path(tempfile.gettempdir())
        if _own is not None and (_own.path.parent != place or not _own.path.is_dir()):
            _own.remove_if_empty()  # somebody may have tidied up
            _own = None
        if _own is None:
            _own = RunFolder.make(place, _PREFIX)
        return Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=_own.path))


def remove(folder: Path) -> None:
    """Remove a folder that `make` gave, with everything in it; what can't be removed is left."""
    untrusted_files.remove(folder)


def close() -> None:
    """Remove this process's own folder, unless something in it is still in use. `make` makes another one."""
    global _own
    with _guard:
        if _own is not None and _own.remove_if_empty():
            _own = None


def sweep(is_ending: Callable[[], bool] = lambda: False, *, seconds: float = _SWEEP_SECONDS) -> int:
    """Remove what killed processes of this user have left, until `is_ending`; gives how many folders are gone."""
    until, count = time.monotonic() + seconds, 0

    def is_over() -> bool:
        return time.monotonic() > until or is_ending()

    for folder in abandoned(Path(tempfile.gettempdir()), _PREFIX):
        count += folder.remove(is_over)
        if is_over():
            break
    return count


atexit.register(close)
