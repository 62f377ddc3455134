"""Writes files that the person edits too: beside them first, with their mode, and with a copy of what was there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MAX_COPIES = 1000


@contextmanager
def written_beside(path: Path, content: bytes, mode: int, group: int = -1) -> Iterator[Path]:
    """The content under another name beside the file, private until it has the mode; it is gone afterwards."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _write(file, content, mode, group)
        yield written
    finally:
        written.unlink(missing_ok=True)


def write_copy(path: Path, content: bytes, suffix: str, mode: int, group: int = -1) -> Path:
    """A copy beside the file, under a name that nothing has yet. Raises `OSError` if it can't be written, or there are
    too many copies."""
    for number in range(_MAX_COPIES):
        copy = path.with_name(f"{path.name}{suffix}{f'-{number}' if number else ''}")
        with suppress(FileExistsError):
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                _write(file, content, mode, group)
            return copy
    raise OSError(0, f"there are too many copies beside {path}; remove some")


def _write(file: BinaryIO, content: bytes, mode: int, group: int) -> None:
    file.write(content)
    file.flush()
    if sys.platform != "win32":
        if group >= 0:
            with suppress(OSError):  # a group that this user is not in
                os.fchown(file.fileno(), -1, group)
        os.fchmod(file.fileno(), mode)
    os.fsync(file.fileno())
