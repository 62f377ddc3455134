"""Converts tables, arrays and numbers of pandas, numpy and polars to lists, dicts and numbers of Python.

A DataFrame becomes a list of rows; a Series a dict by its index, or a list if the index only counts from 0. Other
indexes become columns, and missing values (NaN, NaT, NA) None. Classes are recognized by name, so nothing is imported
here, and a program that imports none of these libraries pays nothing.
"""

from __future__ import annotations

import collections
import datetime
import sys
from collections.abc import Iterable
from typing import Any

MAX_VALUES = 500_000
"""The most JSON values that the host takes in one frame."""
_RESERVED_VALUES = 100
"""How many of them are kept free for what a frame has besides the program's value."""
_OWN_METHODS = ("model_dump", "_asdict", "to_dicts", "to_list", "tolist", "item", "isoformat")
_FINE = ("ns", "ps", "fs", "as")
"""Units finer than those of Python's datetime; for them `tolist` gives bare integers."""


def kinds_of(value: Any) -> set[str]:
    """The classes of a value and their bases, each with its library only: `pandas.DataFrame`, whatever module of pandas
    defines it."""
    return {f"{str(kind.__module__).partition('.')[0]}.{kind.__name__}" for kind in type(value).__mro__}


def plain(value: Any) -> Any:
    """Plain data in place of an object of a library, such as an array or a model of pydantic; the object itself if
    nothing is known about it."""
    if isinstance(value, type):
        return value
    kinds = kinds_of(value)
    try:
        if "pandas.DataFrame" in kinds:
            columns = [value.iloc[:, place].tolist() for place in range(len(value.columns))]
            return _rows(value.index, [*value.columns], columns)
        if "pandas.Series" in kinds:
            return _of_series(value)
        if "pandas.NAType" in kinds:
            return None
        if kinds & {"pandas.Period", "pandas.Interval"}:
            return str(value)
        if kinds & {"numpy.ndarray", "numpy.generic"}:
            return _of_array(value)
        return _by_own_method(value)
    except Exception:  # noqa: BLE001 - the program's own object may raise anything
        return value


def is_missing(value: float | datetime.date | datetime.time) -> bool:
    """True for NaT, and for NaN if the program uses numpy or pandas, where it stands for a missing value. Both are
    unequal to themselves."""
    return value != value and (not isinstance(value, float) or "numpy" in sys.modules)


def too_large(value: Any) -> str:
    """A description, such as `the DataFrame of 1,000,000 rows`, of a table or array with more values than the host
    takes; empty for anything else."""
    kinds = kinds_of(value)
    if kinds & {"pandas.DataFrame", "polars.DataFrame"}:
        rows, columns = value.shape
        count = rows * (1 + 2 * columns)  # a row, and a key and a value for each column
    elif kinds & {"pandas.Series", "polars.Series", "numpy.ndarray", "pandas.Index"}:
        rows = count = value.size if "numpy.ndarray" in kinds else len(value)
    else:
        return ""
    what = f"the {type(value).__name__} of {rows:,} {'rows' if count > rows else 'values'}"
    return what if count > MAX_VALUES - _RESERVED_VALUES else ""


def _by_own_method(value: Any) -> Any:
    for name in _OWN_METHODS:
        if callable(method := getattr(type(value), name, None)):
            return method(value)
    return value


def _of_array(value: Any) -> Any:
    if value.dtype.kind in "mM":
        unit = sys.modules["numpy"].datetime_data(value.dtype)[0]
        value = value.astype(f"{value.dtype.kind}8[us]") if unit in _FINE else value
    made = value.tolist()
    if type(made) is type(value):  # a number of more digits than Python's have
        return float(made) if value.dtype.kind == "f" else value
    return made


def _of_series(series: Any) -> Any:
    index, values = series.index, series.tolist()
    if _only_counts(index):
        return values
    if index.nlevels == 1:
        by_label = {_text(label): value for label, value in zip(index.tolist(), values, strict=True)}
        if len(by_label) == len(values):
            return by_label
    return _rows(index, ["value" if series.name is None else series.name], [values])


def _rows(index: Any, labels: list[Any], columns: list[list[Any]]) -> list[dict[str, Any]]:
    if not _only_counts(index):
        numbers = range(index.nlevels)
        columns = [*(index.get_level_values(number).tolist() for number in numbers), *columns]
        unnamed = ["index"] if index.nlevels == 1 else [f"level_{number}" for number in numbers]
        named = [other if name is None else name for name, other in zip(index.names, unnamed, strict=True)]
        labels = [*named, *labels]
    names = _unique(map(_text, labels))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _only_counts(index: Any) -> bool:
    """True for 0, 1, 2 … without a name: it says nothing about the rows."""
    if index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu":
        return False
    return bool((index == range(len(index))).all())


def _text(label: Any) -> str:
    """A label of a row or column as a key; the parts of one of several levels are joined."""
    if isinstance(label, tuple):
        return "_".join(_text(part) for part in label if part not in ("", None))
    return label.isoformat() if isinstance(label, datetime.date) else str(label)


def _unique(names: Iterable[str]) -> list[str]:
    """The same names; those that occur again get a number, as pandas names columns of a CSV file: `a`, `a.1`."""
    made: dict[str, None] = {}
    counts = collections.Counter[str]()
    for name in names:
        unique = name
        while unique in made:
            counts[name] += 1
            unique = f"{name}.{counts[name]}"
        made[unique] = None
    return [*made]
