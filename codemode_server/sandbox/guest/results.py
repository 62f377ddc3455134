"""`codemode.results`: what earlier programs of the session gave back, whole, read from the host on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .files import from_reply
from .link import Link, Refused


class Results(Mapping[str, Any]):
    """By the name that the result told: `results["x7f3a9c21b04"]`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"results are named by text, as the result told, not by {type(name).__name__}")
        try:
            return from_reply(*self._link.ask("kept", name=name))
        except Refused as refusal:
            raise KeyError(str(refusal)) from None

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
