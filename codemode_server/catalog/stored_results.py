"""Caches results of functions in their only argument, an immutable tool or server."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")


def stored_in_value(compute: Callable[[_Value], _Result]) -> Callable[[_Value], _Result]:
    """Decorator: like `cached_property`, for a function of another module.

    The result is freed together with the argument. Unlike `cached_property` before Python 3.12 it holds no lock shared
    by all values, so `compute` may be slow.
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
