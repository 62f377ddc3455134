"""What calls gave last, by the tool's name: kinds and keys without values and the beginning of a text, for the mend of
a line that called and indexed."""

from __future__ import annotations

from itertools import islice
from typing import Any

from .files import Blocks, File

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
    return _of_list(value, depth)


def _of_list(value: list[Any], depth: int) -> list[Any]:
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
