"""Tells whether a file has changed since it was read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    modified_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)

    @classmethod
    def at(cls, path: Path) -> FileStamp:
        """That of the file at a path, or `NO_FILE`."""
        try:
            return cls.of(os.stat(path))  # noqa: PTH116 - done at each call; a Path costs as much again
        except OSError:
            return NO_FILE


NO_FILE = FileStamp(0, 0, 0)
"""The stamp of a file that does not exist or can't be looked at."""
