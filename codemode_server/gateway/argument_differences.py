"""How the arguments of two calls differ, as lines for the person who approves the later one. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.gateway.placeholders import without_numbers

_MISSING = object()
_MAX_EXCERPT = 200
_BEFORE_DIFFERENCE = 30

Arguments = Mapping[str, JsonValue]


def differing_names(before: Arguments, now: Arguments) -> list[str]:
    """The arguments of either call that the other one has not, or has with another value."""
    return [it for it in dict.fromkeys([*before, *now]) if before.get(it, _MISSING) != now.get(it, _MISSING)]


def common_names(before: Arguments, now: Arguments) -> int:
    """How many arguments both calls have with the same value."""
    return sum(now.get(name, _MISSING) == value for name, value in before.items())


def argument_differences(before: Arguments, now: Arguments, redact: Callable[[str], str]) -> list[str]:
    """A line `- name: …` and a line `+ name: …` for each argument that differs, from where it begins to differ.
    `redact` masks secrets, before anything is cut."""
    lines: list[str] = []
    for name in differing_names(before, now):
        one, other = (redact(_text(it.get(name, _MISSING))) for it in (before, now))
        if one != other:
            lines += [f"- {name}: {_excerpt(one, other)}", f"+ {name}: {_excerpt(other, one)}"]
    return lines


def _text(value: Any) -> str:
    if value is _MISSING:
        return "(not given)"
    return json.dumps(without_numbers(value), ensure_ascii=False, default=str)


def _excerpt(text: str, other: str) -> str:
    """The text from where it begins to differ from the other one."""
    first = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(other))
    start = max(0, min(first, len(text)) - _BEFORE_DIFFERENCE)
    shown = text[start : start + _MAX_EXCERPT]
    return f"{'…' if start else ''}{shown}{'…' if start + _MAX_EXCERPT < len(text) else ''}"
