"""`codemode.results`: what earlier programs of the session returned, in full, read from the host on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .files import from_reply
from .link import Link


class FailedProgram:
    """An earlier program that failed: it has no value, but `calls`, the results of its calls by their numbers."""

    def __init__(self, results: Results, name: str, numbers: list[int]) -> None:
        self.name = name.removesuffix("/calls")
        self.calls = CallResults(results, self.name, numbers)

    def __repr__(self) -> str:
        return f"<{self.name} failed; .calls[n] is the result of its call n: {self.calls.listed}>"


class CallResults(Mapping[int, Any]):
    """The results, by the numbers of the calls in the report of the failure."""

    def __init__(self, results: Results, name: str, numbers: list[int]) -> None:
        self._results = results
        self._name = name
        self._numbers = numbers

    @property
    def listed(self) -> str:
        return ", ".join(map(str, self._numbers))

    def __getitem__(self, number: int) -> Any:
        """The result of one call."""
        if number not in self._numbers:
            raise KeyError(f"no result of call {number}; there are those of the calls {self.listed}")
        return self._results[f"{self._name}/calls/{number}"]

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"<results of the calls {self.listed}>"


class Results(Mapping[str, Any]):
    """The results, by the names in their answers: `results["x7f3a9c21b04"]`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"results are named by text, as their answers say, not by {type(name).__name__}")
        value, encoding = self._link.reply("artifact", KeyError, name=name)
        if encoding == "blocks" and value and value[0]["type"] == "calls":
            return FailedProgram(self, name, value[0]["numbers"])
        return from_reply(value, encoding)

    @property
    def last(self) -> Any:
        """The last value; or the results of calls, if no program of the session has returned a value."""
        names = list(self)
        values = [name for name in names if "/" not in name] or [name for name in names if name.endswith("/calls")]
        if not values:
            raise LookupError("no program of this session has returned a value yet")
        return self[values[-1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._link.ask("artifact", KeyError, name=None))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def __repr__(self) -> str:
        return f"<results: {', '.join(self) or 'none'}>"
