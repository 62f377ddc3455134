"""What calls gave last, by the tool's name: keys without values, for the mend of a line that called and indexed."""

from __future__ import annotations

from itertools import islice
from typing import Any

SEEN: dict[str, Any] = {}
_MAX_TOOLS = 64
_MAX_KEYS = 100
_MAX_ITEMS = 1_000


def note(tool: str, value: Any) -> None:
    """Remember what a result looks like; it is not held on to."""
    if tool in SEEN or len(SEEN) < _MAX_TOOLS:
        SEEN[tool] = _skeleton(value)


def _skeleton(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(islice(value, _MAX_KEYS))
    if isinstance(value, list):
        return [_skeleton(value[0]) if value and isinstance(value[0], dict) else None] * min(len(value), _MAX_ITEMS)
    return value if isinstance(value, str) and len(value) < _MAX_ITEMS else None if value is None else ""
