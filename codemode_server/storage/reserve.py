"""Disk space put by for the record, so that on a full disk programs can still be recorded, which may free some."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

FILE_NAME = "reserve"
SIZE_BYTES = 4 * 2**20
SLICE_BYTES = 256 * 1024
"""What is written and given up at once. In small parts, since a program may be filling the disk at that moment."""
_FREE_BYTES = 4 * SIZE_BYTES
"""The reserve is only made where this much is free: it must not be what fills the disk."""


class Reserve:
    """A file in the state folder, shared by all products on it; of random bytes, since disks compress others."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    @property
    def is_held(self) -> bool:
        try:
            return self.path.lstat().st_size == SIZE_BYTES
        except OSError:
            return False

    def take(self, is_ending: Callable[[], bool] = lambda: False) -> bool:
        """Put the space by if it is not yet and the disk has room; gives whether it is. Blocks while it writes,
        and once `is_ending` no longer than a part takes."""
        if self.is_held:
            return True
        unfinished = self.path.with_name(f"{FILE_NAME}.new")
        try:
            if shutil.disk_usage(self.path.parent).free < _FREE_BYTES:
                return False
            unfinished.unlink(missing_ok=True)
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                while not is_ending() and file.tell() < SIZE_BYTES:
                    file.write(os.urandom(SLICE_BYTES))
                    os.fsync(file.fileno())
                is_whole = file.tell() == SIZE_BYTES
            if is_whole:
                unfinished.replace(self.path)
            else:
                unfinished.unlink()
        except OSError as error:
            logger.debug("no disk space is put by: %s", error)
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
        return self.is_held

    def give_up(self) -> bool:
        """Free a part of the space; gives whether there was any."""
        try:
            with os.fdopen(os.open(self.path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)), "wb") as file:
                left = os.fstat(file.fileno()).st_size - SLICE_BYTES
                if left < 0:
                    return False
                file.truncate(left)
        except OSError:
            return False
        logger.warning(
            "the disk of %s is full; of its reserve for the record %d KiB are left. Free some space",
            self.path.parent,
            left // 1024,
        )
        return True

    @property
    def is_needed(self) -> bool:
        """Whether so little is free that only the record should write."""
        try:
            return shutil.disk_usage(self.path.parent).free < SIZE_BYTES
        except OSError:
            return False
