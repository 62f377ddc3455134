"""Remembers the form of what calls gave, and describes a value in a few words, for the hint of a line that used it
wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from .files import Blocks, File
from .similar_names import similar_name

SAMPLES: dict[str, Any] = {}
"""A shortened copy of a result of each tool, by its name."""
UNKNOWN: Any = object()
"""A value that was not remembered."""
MAX_ITEMS = 1_000
_MAX_TOOLS = 64
_MAX_SAMPLE_KEYS = 100
_MAX_LOOKED_AT = 5
_MAX_SAMPLE_CHARACTERS = 1_000
_MAX_DEPTH = 3
MAX_KEYS = 14
_MAX_KEY = 40
_MAX_HEAD = 60
_MAX_KINDS = 4
_MAX_PARSED = 100_000
"""Characters of a text that is read as JSON to see whether it is JSON."""


def remember_sample(tool: str, value: Any) -> None:
    if tool in SAMPLES or len(SAMPLES) < _MAX_TOOLS:
        SAMPLES[tool] = _skeleton(value, _MAX_DEPTH)


def _skeleton(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value[:_MAX_SAMPLE_CHARACTERS]
    if isinstance(value, File):
        return File()
    if isinstance(value, (dict, list)) and not depth:
        return UNKNOWN
    if isinstance(value, dict):
        return {key: _skeleton(item, depth - 1) for key, item in islice(value.items(), _MAX_SAMPLE_KEYS)}
    if isinstance(value, list):
        items = [_skeleton(item, depth - 1) for item in value[:_MAX_LOOKED_AT]]
        items += items[-1:] * (min(len(value), MAX_ITEMS) - len(items))  # most lists hold items of one form
        return Blocks(items) if isinstance(value, Blocks) else items
    return value


def shape(value: Any) -> str:
    """Describes a value, such as `a dict with the keys 'id', 'name'`."""
    if isinstance(value, dict):
        return f"a dict with {_keys(value)}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        return _shape_of_list(value, "list" if isinstance(value, list) else "tuple")
    if isinstance(value, str):
        lines = value.strip().splitlines()
        is_short = len(value) <= _MAX_HEAD and len(lines) < 2
        return f"the text {value!r}" if is_short else f"a text; it begins {lines[0][:_MAX_HEAD] if lines else ''!r}"
    if isinstance(value, File):
        return "a File: .data (bytes), .text, .mime_type, .size, .name, .save(path)"
    return "None" if value is None else f"of type {type(value).__name__}"


def way_to_read(name: str, value: Any, key: Any) -> str:
    """How to read a list or a text that was asked for a key; empty where its form is not known."""
    if isinstance(value, str):
        return f"json.loads({name}) reads it" if is_json(value[:_MAX_PARSED]) else ""
    row = value[0] if value and isinstance(value[0], dict) else {}
    wanted = key if key in row else nearest_key(key, row)
    if wanted is not None:
        return f"write {name}[0][{wanted!r}] or [row[{wanted!r}] for row in {name}]"
    if isinstance(value, Blocks) and any(isinstance(item, File) for item in value):
        return f"take {name}.files[0]" + (f" or {name}.text" if value.text is not None else "")
    return "" if row else f"its items are read by position: {name}[0]"


def nearest_key(wanted: Any, keys: Iterable[Any]) -> str | None:
    if not isinstance(wanted, str):
        return None
    return similar_name(wanted, (key for key in islice(keys, 500) if isinstance(key, str)))


def is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _shape_of_list(value: Any, kind: str) -> str:
    if not value:
        return f"an empty {kind}"
    what = f"a {kind} of {len(value)} item{'' if len(value) == 1 else 's'}"
    items = list(islice(value, MAX_ITEMS))
    if all(isinstance(item, dict) for item in items):
        return f"{what}, which are dicts with {_keys(items[0])}"
    if any(item is UNKNOWN for item in items[:_MAX_KINDS]):
        return what
    kinds = ["None" if item is None else type(item).__name__ for item in items[:_MAX_KINDS]]
    return f"{what}: {', '.join(kinds)}{', …' if len(value) > _MAX_KINDS else ''}"


def _keys(value: dict[Any, Any]) -> str:
    keys = (f"{key[:_MAX_KEY]}…" if isinstance(key, str) and len(key) > _MAX_KEY else key for key in value)
    return f"the keys {listed([*keys], MAX_KEYS)}"


def listed(names: list[Any], most: int) -> str:
    """Some names: `'a', 'b' and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(map(repr, names[:most]))}{more}"
