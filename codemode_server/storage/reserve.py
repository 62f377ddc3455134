"""Reserves disk space for journal and audit, so that programs that free space can be recorded on a full disk."""

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
"""Size of the parts that are written and given up; small, since a program may be filling the disk at that moment."""
_FREE_BYTES = 4 * SIZE_BYTES
"""Space that must be free before the reserve is made: it must not fill the disk itself."""


class Reserve:
    """A file in the state folder, shared by all products that use it; random bytes, which no disk can compress."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    @property
    def is_held(self) -> bool:
        try:
            return self.path.lstat().st_size == SIZE_BYTES
        except OSError:
            return False

    def take(self, is_ending: Callable[[], bool] = lambda: False) -> bool:
        """Make the reserve if it is missing and the disk has room; returns whether it exists. Blocks while it writes,
        and stops after the current part once `is_ending`."""
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
            logger.debug("no disk space is reserved: %s", error)
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
        return self.is_held

    def give_up(self) -> bool:
        """Free one part; returns whether there was any left."""
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
        """Whether so little space is free that only journal and audit should write."""
        try:
            return shutil.disk_usage(self.path.parent).free < SIZE_BYTES
        except OSError:
            return False
