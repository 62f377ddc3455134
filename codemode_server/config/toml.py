"""Parses TOML, which Codex writes, into a tree with line numbers where they can be determined."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from codemode_server.config.document import MAX_DEPTH, Node
from codemode_server.config.problems import Problems, joined

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_KEY = re.compile(r"""\s*([A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*=""")
_FIRST = re.compile(r"""(?:\s|#[^\n]*)*+(?:\[\[?[^\[\]\n]+\]\]?\s*(?:#[^\n]*)?(?:\n|$)|[\w."'-]+[ \t]*=)""")
_PART = r"""(?>[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP = re.compile(rf"(?<![\w.-]){_PART}(?>[ \t]*\.[ \t]*{_PART}){{{MAX_DEPTH}}}")
"""A key of more parts than this; `tomllib` takes time and memory that grow with the square of the parts."""


def looks_like_toml(text: str) -> bool:
    """True if the first line with content is TOML; no YAML configuration begins like that."""
    return _FIRST.match(text) is not None


def parse_toml(text: str, problems: Problems) -> Node:
    """The tree of the text. Raises `SettingsError` if it is no TOML."""
    if (deep := _DEEP.search(text)) is not None:
        problems.add(text.count("\n", 0, deep.start()) + 1, "", f"nested more than {MAX_DEPTH} levels deep")
        raise problems.error()
    try:
        found = tomllib.loads(text)
        return _node(found, _lines(text), (), "", 1, problems)
    except tomllib.TOMLDecodeError as error:
        if at := re.search(r"at line (\d+), column (\d+)", str(error)):
            problems.add(int(at[1]), f"column {at[2]}", "this is not valid TOML")
        else:
            what = "this is not valid TOML: it ends within a key, a text, a list or a table"
            problems.add(len(text.splitlines()), "", what)
    except RecursionError:
        problems.add(0, "", f"nested more than {MAX_DEPTH} levels deep")
    except MemoryError:
        problems.add(0, "", "there is not enough memory to read this; make the file smaller")
    raise problems.error()


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The lines of tables and of keys, by path."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = tuple(part.strip("\"' ") for part in re.findall(r"""[^."'\s]+|"[^"]*"|'[^']*'""", header[1]))
            for depth in range(len(table)):
                lines.setdefault(table[: depth + 1], number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines


def _node(
    value: Any, lines: dict[tuple[str, ...], int], path: tuple[str, ...], where: str, line: int, problems: Problems
) -> Node:
    line = lines.get(path, line)
    if len(path) > MAX_DEPTH:
        problems.add(line, "", f"nested more than {MAX_DEPTH} levels deep")
        raise problems.error()
    if isinstance(value, dict):
        members = {
            key: _node(child, lines, (*path, key), joined(where, key), line, problems) for key, child in value.items()
        }
        return Node(members, line, where)
    if isinstance(value, list):
        items = [
            _node(child, lines, (*path, str(index)), joined(where, index), line, problems)
            for index, child in enumerate(value)
        ]
        return Node(items, line, where)
    if isinstance(value, bool):
        return Node(value, line, where, str(value).lower())
    if isinstance(value, (int, float, str)):
        return Node(value, line, where, str(value))
    return Node(str(value), line, where, str(value))  # dates: nothing here is one
