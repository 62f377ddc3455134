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
UNKNOWN: Any = object()
"""A value that was not remembered."""
MAX_TEXT = 1_000
"""Characters of a text that are remembered."""
_MAX_TOOLS = 64
_MAX_KEYS = 100
_MAX_ITEMS = 1_000
_MAX_LOOKED_AT = 10
"""Items of a list that are remembered one by one."""
_MAX_DEPTH = 3
_PLAIN = (int, float, bool)


def remember_sample(tool: str, value: Any) -> None:
    """Remember the form of a result, without the result."""
    if tool in SAMPLES or len(SAMPLES) < _MAX_TOOLS:
        SAMPLES[tool] = _skeleton(value, 0)


def _skeleton(value: Any, depth: int) -> Any:
    if value is None:
        return None
    if isinstance(value, _PLAIN):
        return type(value)()
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, File):
        return File()
    if depth == _MAX_DEPTH or not isinstance(value, (dict, list)):
        return UNKNOWN
    if isinstance(value, dict):
        return {key: _skeleton(item, depth + 1) for key, item in islice(value.items(), _MAX_KEYS)}
    return _skeleton_of_list(value, depth)


def _skeleton_of_list(value: list[Any], depth: int) -> list[Any]:
    items = value[:_MAX_ITEMS]
    if items and all(isinstance(item, dict) for item in items):
        return [dict.fromkeys(islice(items[0], _MAX_KEYS), UNKNOWN)] * len(items)
    found = [_skeleton(item, depth + 1) for item in items[:_MAX_LOOKED_AT]]
    found += [UNKNOWN] * (len(items) - len(found))
    if not isinstance(value, Blocks):
        return found
    blocks = Blocks(found)
    blocks._files = tuple(File() for _ in value._files)
    return blocks


MAX_ITEMS = 1_000
_MAX_KEYS = 14
_MAX_KEY = 40
_MAX_HEAD = 60
_MAX_KINDS = 4
_MAX_LISTS = 3
_MAX_PARSED = 100_000
"""Characters of a text that is read as JSON to see whether it is JSON."""


def shape(value: Any) -> str:
    """Describes a value, such as `a dict with the keys 'id', 'name'`."""
    if isinstance(value, dict):
        return f"a dict with {_keys(value)}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        return _of_list(value, "list" if isinstance(value, list) else "tuple")
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, File):
        return "a File: .data (bytes), .text, .mime_type, .size, .name, .save(path)"
    return "None" if value is None else f"of type {type(value).__name__}"


def ways_into_list(name: str, value: Any, key: Any) -> str:
    """How to read a list that was asked for a key."""
    found = islice(value, MAX_ITEMS)
    index, row = next(((at, item) for at, item in enumerate(found) if isinstance(item, dict)), (0, {}))
    wanted = key if key in row else nearest_key(key, row)
    if wanted is not None:
        if not all(isinstance(item, dict) for item in islice(value, MAX_ITEMS)):
            return f"write {name}[{index}][{wanted!r}]"
        every = f" or [row[{wanted!r}] for row in {name}]" if name else ""
        return f"write {name}[0][{wanted!r}]{every}"
    ways = []
    if isinstance(value, Blocks):
        ways += [f"{name}.files[0]"] if value.files else []
        ways += [f"{name}.text"] if value.text is not None else []
    if ways:
        return f"take {' or '.join(ways)}"
    has_plain_items = bool(value) and isinstance(value[0], (str, int, float))
    return f"its items are read by position: {name}[0]" if has_plain_items else "use it as it is"


def way_into_dict(name: str, value: dict[Any, Any]) -> str:
    """How to loop over what a dict holds: over its lists, if they are few."""
    lists = [f"{name}[{key!r}]" for key, item in islice(value.items(), MAX_ITEMS) if isinstance(item, list)]
    return f"loop over {' or '.join(lists)}" if 1 <= len(lists) <= _MAX_LISTS else "loop over one of its values"


def way_into_text(name: str, text: str) -> str:
    """How to read a text that was used like a dict or a list of dicts; empty where its form is not known."""
    if is_json(text[:_MAX_PARSED]):
        return f"json.loads({name}) reads it" if name else "json.loads reads it"
    lines = text.strip().splitlines()
    if len(lines) < 2:
        return ""
    way = f"{name}.splitlines()"
    return f"json.loads reads each line of {way}" if all(map(is_json, lines[:2])) else f"its lines: {way}"


def nearest_key(wanted: Any, keys: Iterable[Any]) -> str | None:
    """The key that was surely meant."""
    if not isinstance(wanted, str):
        return None
    return similar_name(wanted, (key for key in islice(keys, 500) if isinstance(key, str)))


def _of_list(value: Any, kind: str) -> str:
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


def _of_text(text: str) -> str:
    lines = text.strip().splitlines()
    is_short = len(text) <= _MAX_HEAD and len(lines) < 2
    tool = next((tool for tool, sample in SAMPLES.items() if _is_text_of(sample, text)), "")
    which = f" that {tool}() gave" if tool else ""
    if is_short:
        return f"the text {text!r}{which}"
    return f"{'the' if tool else 'a'} text{which}; it begins {lines[0][:_MAX_HEAD] if lines else ''!r}"


def _is_text_of(seen: Any, text: str) -> bool:
    """True if a text is the result of a call, of which only the beginning may be stored."""
    return isinstance(seen, str) and bool(seen) and (seen == text or (len(seen) == MAX_TEXT and text.startswith(seen)))


def is_json(text: str) -> bool:
    """True if a text is a JSON object or array."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _keys(value: dict[Any, Any]) -> str:
    shown = ", ".join(repr(_key(key)) for key in islice(value, _MAX_KEYS))
    more = len(value) - _MAX_KEYS
    return f"the keys {shown}{f' and {more} more' if more > 0 else ''}"


def _key(key: Any) -> Any:
    return f"{key[:_MAX_KEY]}…" if isinstance(key, str) and len(key) > _MAX_KEY else key
