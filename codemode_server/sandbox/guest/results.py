"""`codemode.results`: what earlier programs of the session gave back, whole, read from the host on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .files import from_reply
from .link import Link, Refused


class FailedProgram:
    """An earlier program that failed: it has no value, but `calls`, the results of its calls by their numbers."""

    def __init__(self, results: Results, name: str, numbers: list[int]) -> None:
        self.name = name.removesuffix("/calls")
        self.calls = CallResults(results, self.name, numbers)

    def __repr__(self) -> str:
        return f"<{self.name} failed; .calls[n] is the result of its call n: {self.calls.listed}>"


class CallResults(Mapping[int, Any]):
    """By the number of the call in the report of the failure."""

    def __init__(self, results: Results, name: str, numbers: list[int]) -> None:
        self._results = results
        self._name = name
        self._numbers = numbers

    @property
    def listed(self) -> str:
        return ", ".join(map(str, self._numbers))

    def __getitem__(self, number: int) -> Any:
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
    """By the name that the result told: `results["x7f3a9c21b04"]`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"results are named by text, as the result told, not by {type(name).__name__}")
        try:
            value, encoding = self._link.ask("kept", name=name)
        except Refused as refusal:
            raise KeyError(str(refusal)) from None
        if encoding == "blocks" and value and value[0]["type"] == "calls":
            return FailedProgram(self, name, value[0]["numbers"])
        return from_reply(value, encoding)

    @property
    def last(self) -> Any:
        """The value that was kept last."""
        names = [name for name in self if "/" not in name]
        if not names:
            raise LookupError("nothing is kept in this session yet")
        return self[names[-1]]

    def __iter__(self) -> Iterator[str]:
        names, _ = self._link.ask("kept", name=None)
        return iter(names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def __repr__(self) -> str:
        return f"<results: {', '.join(self) or 'none'}>"
