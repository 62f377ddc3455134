"""Edits tables of TOML by spans of the text: an entry is added at the end, and removed wherever its statements are.

`tomllib` says whether the text is valid, and what it holds; the scanner here only finds where statements begin and end.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codemode_server.config.host_files.spans import HostFileNotEditable, Path, Splice, applied
from codemode_server.config.problems import Problems
from codemode_server.config.toml import parse_toml
from codemode_server.domain.errors import SettingsError

_TOKEN = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}|' + r"'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"|' + r"'[^'\n]*+'|#[^\n]*+|[\[{]|[\]}]|\n|[^\"'#\[\]{}\n]++",
    re.DOTALL,
)
_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_KEY = re.compile(r"""(?:"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'|[^"'=\n]++)++""")
_HEADER = re.compile(r"""\[\[?((?:"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'|[^"'\]\n]++)++)\]\]?[^\n]*""")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    path: Path
    """Of the table, or of the key with its table."""
    start: int
    end: int
    """After its line end."""
    is_header: bool


def read(text: str) -> Any:
    """The data. Raises `HostFileNotEditable` if it is not TOML."""
    try:
        parse_toml(text, Problems(""))  # which has bounds
    except SettingsError as error:
        raise HostFileNotEditable.of(error) from None
    return tomllib.loads(text)


def with_member(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """The text with this table at `path`, at the end; one that is there is removed."""
    if any(_begins(statement.path, path) for statement in _statements(text)):
        text = without_member(text, path)
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(it)}" for key, it in value.items())]
    before = newline if text and not text.endswith("\n") else ""
    blank = newline if text.strip() else ""
    return text + before + blank + newline.join(lines) + newline


def without_member(text: str, path: Path) -> str:
    """The text without the statements of the table at `path`."""
    splices: list[Splice] = []
    previous: _Statement | None = None
    for statement in _statements(text):
        if _begins(statement.path, path):
            if previous is not None and splices:
                splices[-1] = Splice(splices[-1].start, statement.end, "")
            else:
                start = statement.start
                has_blank = statement.is_header and text[:start].strip()
                blank = re.search(r"(?<=\n)\r?\n\Z", text[:start]) if has_blank else None
                splices.append(Splice(blank.start() if blank else start, statement.end, ""))
            previous = statement
        else:
            previous = None
    if not splices:
        raise HostFileNotEditable(f"{'.'.join(path)} is part of an inline table; edit it by hand")
    return applied(text, splices)


def _statements(text: str) -> Iterator[_Statement]:
    table: Path = ()
    at = 0
    while True:
        match = _SPACE.match(text, at)
        at = match.end() if match else at
        if at >= len(text):
            return
        if text[at] == "[":
            header = _HEADER.match(text, at)
            if header is None:
                raise HostFileNotEditable("a header in it is not understood", text.count("\n", 0, at) + 1)
            table = _parts(header[1])
            end = min(header.end() + 1, len(text))
            yield _Statement(table, _line_start(text, at), end, is_header=True)
        else:
            key = _KEY.match(text, at)
            if key is None:
                raise HostFileNotEditable("a key in it is not understood", text.count("\n", 0, at) + 1)
            end = _end_of_value(text, key.end())
            yield _Statement((*table, *_parts(key[0])), _line_start(text, at), end, is_header=False)
        at = end


def _end_of_value(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise HostFileNotEditable("a value in it is not understood", text.count("\n", 0, at) + 1)
        at = token.end()
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            return at
    return at


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _parts(key: str) -> Path:
    """The parts of a dotted key."""
    parts: list[str] = []
    here: Any = tomllib.loads(f"{key.strip()} = 0")
    while isinstance(here, dict):
        ((part, here),) = here.items()
        parts.append(part)
    return tuple(parts)


def _begins(path: Path, prefix: Path) -> bool:
    return path[: len(prefix)] == prefix


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(it)}" for key, it in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return str(value)
