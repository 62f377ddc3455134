"""What a program may write, in bytes: WASI has no quota, so the folders it sees are measured while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

LEAST_PER_ENTRY = 4_096
"""What even an empty file or folder takes of a disk."""


class Quota:
    """Folders of one program, each of which may hold so much."""

    def __init__(self, folders: Iterable[Path], most_bytes: int) -> None:
        self._most = most_bytes
        # A folder that is too full already may be read and tidied up, but not filled further.
        self._allowed = {folder: max(most_bytes, used_bytes(folder, most_bytes * 4)) for folder in folders}

    def is_passed(self) -> bool:
        """Whether a folder holds more than it may."""
        return any(used_bytes(folder, allowed) > allowed for folder, allowed in self._allowed.items())


def used_bytes(folder: Path, enough: int) -> int:
    """Bytes in a folder and all below it, links not followed; stops counting past `enough`."""
    used = 0
    waiting = [os.fspath(folder)]
    while waiting and used <= enough:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    used += _size(entry)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # removed meanwhile
    return used


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return max(LEAST_PER_ENTRY, entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return 0
