"""Writes files that the person edits too: beside them first, with their mode, and with a copy of what was there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import BinaryIO

from codemode_server.config.places import Change, digest
from codemode_server.domain.errors import CodemodeError
from codemode_server.support.private_files import check_file, replace_private

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
    """A copy beside the file, under a name that nothing has yet. Raises `OSError`."""
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


@contextmanager
def added_variables(path: Path, variables: Mapping[str, str]) -> Iterator[Change | None]:
    """Append variables, and restore the file if the body fails; gives what changed, if anything did. Raises
    `CodemodeError`."""
    from dotenv import dotenv_values

    if not variables:
        yield None
        return
    lines = _lines(variables)
    try:
        check_file(path)
        before = path.read_bytes() if path.exists() else None
        there = dotenv_values(stream=StringIO((before or b"").decode("utf-8-sig", "replace")), interpolate=False)
        if taken := [name for name in variables if name in there]:  # a second line would change its value
            raise CodemodeError(f"{path} has {', '.join(taken)} already, so nothing was changed; try again")
        after = (before or b"") + (b"\n" if before and not before.endswith(b"\n") else b"") + lines
        replace_private(path, after)
    except OSError as error:
        raise CodemodeError(f"can't write {path}: {error.strerror}") from error
    try:
        yield Change(digest(before), digest(after))
    except BaseException:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            replace_private(path, before)
        raise


def _lines(variables: Mapping[str, str]) -> bytes:
    from dotenv import dotenv_values

    quoted = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in variables.items()}
    lines = "".join(f"{name}='{value}'\n" for name, value in quoted.items())
    written = dotenv_values(stream=StringIO(lines), interpolate=False)
    if wrong := [name for name, value in variables.items() if written.get(name) != value]:
        raise CodemodeError(f"the value of {wrong[0]} can't be written to a .env file; set it in the environment")
    return lines.encode()
