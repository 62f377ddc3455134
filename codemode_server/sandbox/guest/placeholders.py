"""What a dry run gives a program for a result of unknown type: text that may be used as what the result may be.

It is indexed as a dict or a list is, has one item, and counts as an unusual number, from which the host knows it again.
What it gives says where it came from, as it does itself: `<number of github.create_issue #1>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

    def __int__(self) -> int:
        return self.number

    def __index__(self) -> int:
        return self.number

    def __float__(self) -> float:
        return float(self.number)

    def __format__(self, spec: str) -> str:
        try:
            return str.__format__(self, spec)
        except ValueError:  # it is written as a number
            return str(self)

    def __add__(self, other: Any) -> Any:
        return str.__add__(self, other) if isinstance(other, str) else self.number + _plain(other)

    def __radd__(self, other: Any) -> Any:
        return str.__add__(other, self) if isinstance(other, str) else other + self.number

    def __sub__(self, other: Any) -> Any:
        return self.number - _plain(other)

    def __rsub__(self, other: Any) -> Any:
        return other - self.number

    def __mul__(self, other: Any) -> Any:
        return self.number * _plain(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.number / _plain(other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.number

    def __floordiv__(self, other: Any) -> Any:
        return self.number // _plain(other)

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self.number

    def __mod__(self, other: Any) -> Any:
        return self.number % _plain(other)

    def __rmod__(self, other: Any) -> Any:
        return str.__mod__(other, str(self)) if isinstance(other, str) else other % self.number

    def __divmod__(self, other: Any) -> Any:
        return divmod(self.number, _plain(other))

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, self.number)

    def __pow__(self, other: Any) -> Any:
        return self.number ** _plain(other)

    def __neg__(self) -> int:
        return -self.number

    def __pos__(self) -> int:
        return self.number

    def __abs__(self) -> int:
        return self.number

    def __round__(self, digits: int | None = None) -> int:
        return self.number

    def __trunc__(self) -> int:
        return self.number

    __floor__ = __ceil__ = __trunc__

    def __lt__(self, other: Any) -> bool:
        return str.__lt__(self, other) if isinstance(other, str) else bool(self.number < other)

    def __le__(self, other: Any) -> bool:
        return str.__le__(self, other) if isinstance(other, str) else bool(self.number <= other)

    def __gt__(self, other: Any) -> bool:
        return str.__gt__(self, other) if isinstance(other, str) else bool(self.number > other)

    def __ge__(self, other: Any) -> bool:
        return str.__ge__(self, other) if isinstance(other, str) else bool(self.number >= other)


def _plain(other: Any) -> Any:
    """The number that another such text counts as."""
    return other.number if isinstance(other, Unknown) else other


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
