"""Results that depend only on one immutable tool or server, computed once and stored in that value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")


def stored_in_value(compute: Callable[[_Value], _Result]) -> Callable[[_Value], _Result]:
    """What `cached_property` is for a class, for a function of another module whose only argument is immutable.

    The result is freed together with the value; a changed tool is a new value, for which it is computed again. Unlike
    `cached_property` before Python 3.12 it holds no lock that all values share, so it may be slow in a thread.
    """
    key = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def stored(value: _Value) -> _Result:
        results = vars(value)
        if key not in results:
            results[key] = compute(value)
        found: _Result = results[key]
        return found

    return stored
