"""Differences between two definitions of a tool. No I/O.

Every text of a server is escaped and stands within a line of ours, so that none of it can look like another line.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from codemode_server.support.text import escaped, first_lines

_PARTS = {
    "name": "name",
    "title": "title",
    "description": "description",
    "inputSchema": "parameters",
    "outputSchema": "result",
    "effect": "effect",
    "closedWorld": "claim to deal with nothing outside of its server",
}
_MAX_COMPARED_LINES = 1_000
"""Longer texts are shown as removed and added, since comparing takes the square of the time."""
_MAX_LINE_CHARACTERS = 160
MAX_LINES = 400


def shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The first lines of a difference, and how many more there are."""
    return tuple(first_lines(lines, MAX_LINES, "… and {:,} more lines"))


def change_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The difference of two canonical definitions as a unified diff, without limit of length; of an empty one nothing
    is known, so all of the other is shown."""
    changed = [part for part in _PARTS if before.get(part) != after.get(part)] if before else []
    return tuple(line for part in changed or _PARTS for line in _diff(part, before.get(part), after.get(part)))


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
