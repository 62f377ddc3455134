"""Shows the change of a host's file as a diff without secrets.

The lines around the change belong to other servers and settings, whose values are often secrets. So a value can be read
only if it is of our entry, or one of those strings of servers that `readable` gives; keys stay.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from codemode_server.config.host_places import Syntax
from codemode_server.config.secrecy import looks_secret
from codemode_server.text import one_line

_CONTEXT_LINES = 3
_MAX_DIFF_LINES = 2_000
_MAX_CHARACTERS = 200
_MASK = "***"
_HEADER = re.compile(r"\[\[?[A-Za-z_][^=,]*\]\]?\s*")
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*+"|'[^']*+')|(?P<comment>//.*|/\*.*|\#.*)|(?P<word>[\w.+-]+)|(?P<other>[\s{}\[\],:=]+|.)"""
)
_IS_KEY = re.compile(r"\s*[:=]")
_YAML_LINE = re.compile(
    r"""(?P<key>\s*(?:-\s+)?(?:"[^"]*"|'[^']*'|[\w./-]+):)(?P<value>(?:\s.*)?)|(?P<item>\s*-)\s.*"""
)
_HARMLESS_KEYS = frozenset({"command", "cmd", "type", "name", "source", "enabled", "disabled"})
_HARMLESS_WORDS = frozenset({"true", "false", "null", "stdio", "local", "remote", "http", "sse", "custom"})


@dataclass(frozen=True, slots=True)
class _Visible:
    """Decides which values can be read."""

    own: frozenset[str]
    others: frozenset[str]

    def has(self, text: str, key: str) -> bool:
        decoded = re.sub(r'\\(["\\/])', r"\1", text)
        if text in self.own or decoded in self.own:
            return True
        if looks_secret(key):
            return False
        is_plain = re.fullmatch(r"\d{1,4}", text) is not None or text in _HARMLESS_WORDS or key in _HARMLESS_KEYS
        return is_plain or text in self.others or decoded in self.others


def difference(
    before: str, after: str, syntax: Syntax, own: Collection[str], shown: Collection[str] = frozenset()
) -> list[str]:
    """The lines of a unified diff; `own` are the strings of our entry, `shown` those that are no secrets."""
    visible = _Visible(frozenset(own), frozenset(shown))
    old, new = before.splitlines(), after.splitlines()
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    first = max(0, start - _CONTEXT_LINES)
    old, new = (lines[first : len(lines) - max(0, end - _CONTEXT_LINES)] for lines in (old, new))
    if len(old) + len(new) > _MAX_DIFF_LINES:
        return [f"(the change is too long to be shown: {len(old):,} lines become {len(new):,})"]
    lines = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""))[2:]
    return [_shown(line, syntax, visible, first) for line in lines]


def strings(value: object) -> Iterator[str]:
    """All strings in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings(inner)


def _common(old: list[str], new: list[str]) -> int:
    """How many lines at the beginning are equal."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _shown(line: str, syntax: Syntax, visible: _Visible, first: int) -> str:
    if line.startswith("@@"):
        return re.sub(r"\d+(?=,|\s)", lambda it: str(int(it[0]) + first), line, count=1).split(" +")[0] + " @@"
    masked = _masked_yaml(line[1:], visible) if syntax == "yaml" else _masked(line[1:], visible)
    return line[0] + one_line(masked.rstrip("\r"), _MAX_CHARACTERS)


def _masked(line: str, visible: _Visible) -> str:
    """A line of JSON or TOML."""
    if line.startswith("[") and _HEADER.fullmatch(line):
        return line
    parts: list[str] = []
    key = ""
    for token in _TOKEN.finditer(line):
        is_key = _IS_KEY.match(line, token.end()) is not None
        text = token[0][1:-1] if token["text"] else token[0]
        if token["comment"]:
            parts.append(_comment(token[0]))
        elif _is_structure(token, is_key=is_key) or visible.has(text, key):
            parts.append(token[0])
        elif token["text"]:
            parts.append(f'"{_MASK}"')
        elif not parts or parts[-1] != _MASK:
            parts.append(_MASK)
        key = text if is_key else key if token["other"] and "," not in token[0] else ""
    return "".join(parts)


def _is_structure(token: re.Match[str], *, is_key: bool) -> bool:
    is_punctuation = token["other"] is not None and not token[0].strip(" \t{}[],:=")
    return is_punctuation or (is_key and token["other"] is None)


def _masked_yaml(line: str, visible: _Visible) -> str:
    if not line.strip():
        return line
    match = _YAML_LINE.fullmatch(line)
    if match is None:
        blank = line[: len(line) - len(line.lstrip())]
        return blank + (_comment(line.strip()) if line.strip().startswith("#") else _MASK)
    if match["item"]:
        value = line[len(match["item"]) :].strip()
        return f"{match['item']} {value if visible.has(_unquoted(value), '') else _MASK}"
    value = match["value"].strip()
    name = _unquoted(match["key"].strip().removeprefix("-").strip().removesuffix(":"))
    is_shown = not value or value in ("{}", "[]") or visible.has(_unquoted(value), name)
    return f"{match['key']}{' ' if value else ''}{value if is_shown else _MASK}"


def _comment(text: str) -> str:
    mark = re.match(r"//|/\*|#", text)
    return f"{mark[0]} {_MASK}" if mark and len(text) > len(mark[0]) else text


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text
