"""Says how deep JSON values are nested: what walks through one by recursion needs a bound."""

from __future__ import annotations

from typing import Any


def is_nested_deeper(value: Any, most: int) -> bool:
    """True if a JSON value is nested more than `most` deep."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
