"""Values between Python and JSON: what a program gives to a tool or returns, and what a tool gives back.

Towards the host one rule serves arguments and results: dicts, lists, strings, numbers, booleans and None as they are;
tuples, ranges and dict views as lists; sets as sorted lists; dataclasses, named tuples and simple namespaces as dicts;
dates and times in ISO form; decimals, fractions, UUIDs, paths and time spans as text; enums by value; keys as text;
tables and arrays of libraries as `tables` has them.
An argument carries the number or format that such a text also stands for, and the host takes what the schema wants:
bytes and files are base64, which it decodes where the schema wants plain text.
A result may hold anything: what JSON has no word for stands there as its `repr`. An argument may not: a tool would
take the text for the thing.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import reprlib
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .encoded import MIN_CHARACTERS, without_bytes
from .files import Fields, File, Shown
from .tables import MAX_VALUES, is_missing, plain, too_large

MAX_DEPTH = 100
"""Deeper nesting is not data any more, and the host refuses it."""
_MAX_INTEGER_BITS = 14_000  # 4,300 digits: as many as Python reads back

_NO_FLOAT = 10**300
"""Larger decimals and fractions are sent as text only."""


class NotJson(TypeError):
    """A value that JSON can't hold."""


_PLAIN_TEXT = (decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath, datetime.timedelta)
_KEYS = (str, int, float, types.NoneType, datetime.date, datetime.time, *_PLAIN_TEXT)
_DICT_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_LISTS = (list, tuple, range, collections.deque, *_DICT_VIEWS)


class Written(str):
    """The text of a value that JSON has no type for; `forms` are its other forms, as the host reads them."""

    forms: dict[str, Any]

    def __new__(cls, text: str, forms: dict[str, Any]) -> Written:
        made = super().__new__(cls, text)
        made.forms = forms
        return made


class Unfinished:
    """A value that has not arrived yet, or was not requested yet."""

    __slots__ = ()

    def _value(self) -> Any:
        raise NotImplementedError


def resolve(value: Any) -> Any:
    """The value itself: of a call on its way its result, blocking until it is there."""
    return value._value() if isinstance(value, Unfinished) else value


class _Encoder:
    def __init__(self) -> None:
        self._open: set[int] = set()
        self.strangers: list[int] = []
        """Ids of the values that JSON can't hold."""

    def encode(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return value if len(value) < MIN_CHARACTERS else self._text(value)
        if kind is int or (isinstance(value, int) and not isinstance(value, (bool, enum.Enum))):
            return int(value) if value.bit_length() <= _MAX_INTEGER_BITS else self._stranger(value)
        value = resolve(value)
        if isinstance(value, enum.Enum):
            return self.encode(value.value, depth)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None if is_missing(value) else self._not_a_number(value)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, (datetime.date, datetime.time)):
            return None if is_missing(value) else self._written(value.isoformat(), value)
        if isinstance(value, _PLAIN_TEXT):
            return self._written(str(value), value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._data(bytes(value))
        if isinstance(value, File):
            return self._file(value)
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise NotJson(f"nested more than {MAX_DEPTH} deep; send a flatter value")
        if id(value) in self._open:
            raise NotJson("it contains itself")
        own_id = id(value)
        self._open.add(own_id)
        try:
            if isinstance(value, tuple) and hasattr(value, "_asdict"):
                return self._dict(value._asdict(), depth)
            if isinstance(value, Fields):
                return self._dict({**value, **self._beside(value)}, depth)
            if isinstance(value, Mapping):
                return self._dict(value, depth)
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                fields = dataclasses.fields(value)
                return self._dict({f.name: getattr(value, f.name, None) for f in fields}, depth)
            if isinstance(value, types.SimpleNamespace):
                return self._dict(vars(value), depth)
            if isinstance(value, (set, frozenset)):
                value = _in_order(value)
            if isinstance(value, _LISTS):
                return [self.encode(item, depth + 1) for item in value]
            if what := too_large(value):
                return self._too_large(value, what)
            if (made := plain(value)) is not value:
                return self.encode(made, depth + 1)
        finally:
            self._open.discard(own_id)
        return self._stranger(value)

    def _dict(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made = {_key(key): self.encode(item, depth + 1) for key, item in value.items()}
        if len(made) == len(value):
            return made
        names = [_key(key) for key in value]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotJson(f"two keys of a dict are both written as {twice!r} in JSON")

    def _written(self, text: str, value: Any) -> str:
        return text

    def _stranger(self, value: Any) -> Any:
        self.strangers.append(id(value))
        return as_text(value)

    def _too_large(self, value: Any, what: str) -> Any:
        return self._stranger(value)

    def _data(self, data: bytes) -> Any:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return {"bytes": len(data)}
        is_text = text.isprintable() or not any(ord(c) < 32 and c not in "\t\r\n" for c in text)
        return text if is_text else {"bytes": len(data)}

    def _text(self, value: str) -> str:
        return without_bytes(value)

    def _not_a_number(self, value: float) -> Any:
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def _file(self, value: File) -> Any:
        return value.described()

    def _beside(self, value: Fields) -> dict[str, Any]:
        return value.beside()


class _ArgumentEncoder(_Encoder):
    def _stranger(self, value: Any) -> Any:
        advice = "; send list(…) of it" if isinstance(value, Iterator) else ""
        raise NotJson(f"{type(value).__name__} has no form in JSON{advice}")

    def _too_large(self, value: Any, what: str) -> Any:
        raise NotJson(f"{what} has more than {MAX_VALUES:,} values in JSON; send less of it, or in several calls")

    def _dict(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        for key in value:
            own = key.value if isinstance(key, enum.Enum) else resolve(key)
            if not isinstance(own, _KEYS) and not isinstance(plain(own), _KEYS):
                raise NotJson(f"a key of a dict is of type {type(own).__name__}; JSON takes texts")
        return super()._dict(value, depth)

    def _written(self, text: str, value: Any) -> str:
        if isinstance(value, decimal.Decimal) and not value.is_finite():
            return str(self._not_a_number(float(value)))
        forms = _forms(value)
        return Written(text, forms) if forms else text

    def _data(self, data: bytes) -> Any:
        return Written(base64.b64encode(data).decode(), {"base64": True})

    def _text(self, value: str) -> str:
        return value

    def _not_a_number(self, value: float) -> Any:
        raise NotJson(f"{value!r} has no form in JSON")

    def _file(self, value: File) -> Any:
        content = value.content()
        return content if isinstance(content, str) else self._data(content)

    def _beside(self, value: Fields) -> dict[str, Any]:
        return {}


def forms_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[dict[str, Any]]:
    """The other forms of the texts in an argument, each with the keys and indices that lead to it, as frames have
    them."""
    if isinstance(value, Written):
        yield {"at": path, "forms": value.forms}
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, (dict, list, Written)):
                yield from forms_in(item, (*path, key))


def _forms(value: Any) -> dict[str, Any]:
    if isinstance(value, (decimal.Decimal, fractions.Fraction)):
        if not -_NO_FLOAT < value < _NO_FLOAT:
            return {}
        is_whole = value == int(value)
        number = int(value) if is_whole else float(value)
        is_exact = is_whole or isinstance(value, fractions.Fraction) or fractions.Fraction(repr(number)) == value
        return {"number": number} if is_exact else {}
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
        return {"number": int(seconds) if seconds.is_integer() else seconds, "duration": f"PT{seconds:.15g}S"}
    if isinstance(value, datetime.datetime):
        return {"date": value.date().isoformat()}
    return {"date-time": f"{value.isoformat()}T00:00:00"} if isinstance(value, datetime.date) else {}


def to_argument(value: Any, name: str) -> Any:
    """A value as a tool gets it; `name` says what it is for. Raises `TypeError` if JSON can't hold it."""
    try:
        return _ArgumentEncoder().encode(value)
    except NotJson as error:
        raise TypeError(f"{name}: {error}") from None


def to_result(value: Any) -> tuple[Any, str]:
    """The value of a program and its form: `none`, `json`, or `repr` with its text for what JSON can't hold."""
    value = resolve(value)
    if value is None or isinstance(value, Shown):
        return None, "none"
    encoder = _Encoder()
    try:
        encoded = encoder.encode(value)
    except (NotJson, RecursionError):
        return as_text(value), "repr"
    return encoded, "repr" if encoder.strangers == [id(value)] and isinstance(encoded, str) else "json"


def as_text(value: Any) -> str:
    """`repr`, for objects whose own `__repr__` fails too."""
    if isinstance(value, int):
        return f"<int of {value.bit_length()} bits>"
    try:
        return without_bytes(repr(value))
    except RecursionError:
        return reprlib.repr(type(value))
    except Exception as error:  # noqa: BLE001 - the program's own __repr__ may raise anything
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def _in_order(value: Iterable[Any]) -> list[Any]:
    items = list(value)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    if isinstance(key, (datetime.date, datetime.time)):
        return key.isoformat()
    return str(key)
