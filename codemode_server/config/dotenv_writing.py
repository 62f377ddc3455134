"""Adds variables to the `.env` beside a configuration file; the file is private afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from codemode_server.config.places import Change, digest
from codemode_server.domain.errors import CodemodeError
from codemode_server.private_files import check_file, replace_private

_PLAIN = re.compile(r"[\w./:@+=,-]+", re.ASCII)


@contextmanager
def added_variables(path: Path, variables: Mapping[str, str]) -> Iterator[Change | None]:
    """Append variables, and take them out again if the body fails; gives what changed, if anything did.

    Raises:
        CodemodeError: a name is there already, the file is a link or somebody else's, or a value can't be written so
            that it is read again.
    """
    if not variables:
        yield None
        return
    lines = "".join(_line(name, value) for name, value in variables.items()).encode()
    try:
        check_file(path)
        is_new = not path.exists()
        before = b"" if is_new else path.read_bytes()
        _check_free(path, before, variables)
        gap = b"\n" if before and not before.endswith(b"\n") else b""
        replace_private(path, before + gap + lines)
    except OSError as error:
        raise CodemodeError(f"can't write {path}: {error.strerror}") from error
    try:
        yield Change("" if is_new else digest(before), digest(before + gap + lines))
    except BaseException:
        _take_out(path, lines, is_new=is_new)
        raise


def add_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Append variables; raises as `added_variables` does."""
    with added_variables(path, variables):
        pass


def _check_free(path: Path, content: bytes, names: Iterable[str]) -> None:
    """What is there is another server's: a second line would change its value."""
    from dotenv.parser import parse_stream

    there = {binding.key for binding in parse_stream(StringIO(content.decode("utf-8-sig", "replace")))}
    if taken := [name for name in names if name in there]:
        raise CodemodeError(f"{path} has {', '.join(taken)} already, so nothing was changed; try again")


def _take_out(path: Path, lines: bytes, *, is_new: bool) -> None:
    content = path.read_bytes().replace(lines, b"", 1)
    if content or not is_new:
        replace_private(path, content)
    else:
        path.unlink()


def _line(name: str, value: str) -> str:
    from dotenv.parser import parse_stream

    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    line = f"{name}={value if _PLAIN.fullmatch(value) else f'{chr(39)}{quoted}{chr(39)}'}\n"
    found = {binding.key: binding.value for binding in parse_stream(StringIO(line)) if not binding.error}
    if found != {name: value}:
        raise CodemodeError(f"the value of {name} can't be written to a .env file; set it in the environment")
    return line
