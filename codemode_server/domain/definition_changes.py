"""Differences between two definitions of a tool: in a few words, and in full. No I/O.

Every text of a server is escaped and stands within a line of ours, so that none of it can look like another line.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codemode_server.text import escaped

_PARTS = {
    "name": "name",
    "title": "title",
    "description": "description",
    "inputSchema": "parameters",
    "outputSchema": "result",
    "effect": "effect",
    "task": "way to be called",
    "closedWorld": "claim to deal with nothing outside of its server",
}
_MAX_EXCERPT = 80
_MAX_NAMES = 4
_MAX_COMPARED_LINES = 1_000
"""Longer texts are shown as removed and added, since comparing takes the square of the time."""
_MAX_LINE_CHARACTERS = 160
MAX_LINES = 400


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """Difference between two definitions."""

    summary: str
    """A few words: `description (adds "…"), parameters (+bcc)`."""
    lines: tuple[str, ...]
    """A unified diff, without limit of length."""

    def shortened(self) -> tuple[str, ...]:
        """The first lines, and how many more there are."""
        if len(self.lines) <= MAX_LINES:
            return self.lines
        return (*self.lines[:MAX_LINES], f"… and {len(self.lines) - MAX_LINES:,} more lines")


def change_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> DefinitionChange:
    """The difference of two canonical definitions; of an empty one nothing is known, so all of the other is shown."""
    changed = [part for part in _PARTS if before.get(part) != after.get(part)] if before else []
    lines = [line for part in changed or _PARTS for line in _diff(part, before.get(part), after.get(part))]
    summary = ", ".join(_summary(part, before.get(part), after.get(part)) for part in changed)
    return DefinitionChange(summary, tuple(lines))


def _summary(part: str, before: Any, after: Any) -> str:
    name = _PARTS[part]
    if part in ("inputSchema", "outputSchema"):
        return f"{name}{_schema_summary(before, after)}"
    if part == "description":
        added = _added(str(before), str(after))
        return f"{name} (adds {_quoted(added)})" if added else f"{name} (leaves words out)"
    if part in ("task", "closedWorld"):
        return name
    return f"{name} ({_quoted(str(before))} to {_quoted(str(after))})"


def _schema_summary(before: Any, after: Any) -> str:
    old, new = _properties(before), _properties(after)
    names = [
        *(f"+{_name(it)}" for it in new if it not in old),
        *(f"-{_name(it)}" for it in old if it not in new),
        *(f"~{_name(it)}" for it in new if it in old and old[it] != new[it]),
    ]
    more = [f"{len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return f" ({', '.join([*names[:_MAX_NAMES], *more])})" if names else ""


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _added(before: str, after: str) -> str:
    """The words of the second text between the common beginning and end."""
    old, new = before.split(), after.split()
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    start = min(len(old), len(new)) if start is None else start
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return " ".join(new[start : len(new) - end])


def _quoted(text: str) -> str:
    shown = escaped(text[: _MAX_EXCERPT + 1])
    return f'"{shown}"' if len(shown) <= _MAX_EXCERPT else f'"{shown[: _MAX_EXCERPT - 1]}…"'


def _name(text: str) -> str:
    shown = escaped(text[:41])
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _diff(part: str, before: Any, after: Any) -> Iterator[str]:
    old, new = _lines(before), _lines(after)
    if old == new:
        return
    yield f"@@ {_PARTS[part]} @@"
    if len(old) + len(new) <= _MAX_COMPARED_LINES:
        yield from list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
        return
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    yield from (f"-{line}" for line in old[start:])
    yield from (f"+{line}" for line in new[start:])


def _lines(value: Any) -> list[str]:
    """A text by sentences, anything else as indented JSON; each line is escaped and of bounded length."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        found = re.split(r"(?<=[.!?:;]) ", value)
    else:
        found = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True).split("\n")
    return [piece for line in found for piece in _pieces(escaped(line))]


def _pieces(line: str) -> Iterator[str]:
    for start in range(0, len(line) or 1, _MAX_LINE_CHARACTERS):
        yield line[start : start + _MAX_LINE_CHARACTERS]
