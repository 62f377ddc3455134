"""Placeholder of a dry run for a result of unknown type: text that may be used as any type.

It is indexed as a dict or a list is, has one item, and counts as an unusual number, from which the host knows it again.
What it gives says where it came from, as it does itself: `<number of github.create_issue #1>`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

_MAX_NAME = 60
_MARK = re.compile(r"<(.*) of ([\w.-]+ #\d+)>")


class Unknown(str):
    """One such text. `number` is what it counts as."""

    number: int = 0

    @classmethod
    def of(cls, text: str, number: int) -> Unknown:
        made = cls(text)
        made.number = number
        return made

    def _inner(self, key: object) -> Unknown:
        name, call = found.groups() if (found := _MARK.fullmatch(str(self))) else ("result", "it #0")
        shown = f"[{key}]" if isinstance(key, int) else re.sub(r"[^\w.\[\]-]", "_", str(key))
        whole = (shown if name == "result" else f"{name}{'' if shown[0:1] == '[' else '.'}{shown}")[-_MAX_NAME:]
        return Unknown.of(f"<{whole} of {call}>", self.number)

    def __getitem__(self, key: Any) -> Any:
        return str.__getitem__(self, key) if isinstance(key, slice) else self._inner(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._inner(key)

    def keys(self) -> list[Any]:
        return [self._inner("key")]

    def values(self) -> list[Any]:
        return [self._inner("value")]

    def items(self) -> list[Any]:
        return [(self._inner("key"), self._inner("value"))]

    def __iter__(self) -> Iterator[Any]:
        yield self._inner(0)

    def __format__(self, spec: str) -> str:
        try:
            return str.__format__(self, spec)
        except ValueError:  # it is written as a number
            return str(self)


def _plain(other: Any) -> Any:
    """The number that another such text counts as."""
    return other.number if isinstance(other, Unknown) else other


def _as_number(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: function(self.number, *map(_plain, others))


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def use(self: Unknown, other: Any) -> Any:
        return function(other, str(self) if isinstance(other, str) else self.number)

    return use


def _unless_text(name: str) -> Callable[..., Any]:
    """As of a text beside another text, else as of a number."""

    def use(self: Unknown, other: Any) -> Any:
        if isinstance(other, str):
            return getattr(str, f"__{name}__")(self, other)
        return getattr(operator, name)(self.number, other)

    return use


for _name in ("sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Unknown, f"__{_name}__", _as_number(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Unknown, f"__r{_name}__", _reflected(getattr(operator, _name)))
for _name in ("add", "lt", "le", "gt", "ge"):
    setattr(Unknown, f"__{_name}__", _unless_text(_name))
_NUMBERS: dict[str, Callable[..., Any]] = {
    "divmod": divmod,
    "round": lambda number, *digits: number,
    "int": int,
    "index": int,
    "float": float,
    "neg": operator.neg,
    "pos": int,
    "abs": int,
    "trunc": int,
    "floor": int,
    "ceil": int,
}
for _name, _function in _NUMBERS.items():
    setattr(Unknown, f"__{_name}__", _as_number(_function))


def from_block(block: dict[str, Any]) -> Any:
    """The value of a block of the host, in which the texts of `unknown` stand for values of unknown type."""
    unknown, number = frozenset(block["unknown"]), block["number"]

    def value_of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value_of(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [value_of(item) for item in value]
        return Unknown.of(value, number) if isinstance(value, str) and value in unknown else value

    return value_of(block["value"])
