"""Adds variables to the `.env` beside a configuration file; the file is private afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from codemode_server.domain.errors import CodemodeError
from codemode_server.private_files import check_file, replace_private

_PLAIN = re.compile(r"[\w./:@+=,-]+", re.ASCII)


def add_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Append the variables, none of which the file has yet.

    Raises:
        CodemodeError: the file is a link or somebody else's, or a value can't be written so that it is read again.
    """
    if not variables:
        return
    try:
        check_file(path)
        before = path.read_bytes() if path.exists() else b""
        lines = "".join(_line(name, value) for name, value in variables.items())
        gap = b"\n" if before and not before.endswith(b"\n") else b""
        replace_private(path, before + gap + lines.encode())
    except OSError as error:
        raise CodemodeError(f"can't write {path}: {error.strerror}") from error


def _line(name: str, value: str) -> str:
    from dotenv.parser import parse_stream

    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    line = f"{name}={value if _PLAIN.fullmatch(value) else f'{chr(39)}{quoted}{chr(39)}'}\n"
    found = {binding.key: binding.value for binding in parse_stream(StringIO(line)) if not binding.error}
    if found != {name: value}:
        raise CodemodeError(f"the value of {name} can't be written to a .env file; set it in the environment")
    return line
