"""The contract of stores that hold one small value for each tool between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ToolStore(Protocol[K, V]):
    """Called on the event loop, so all must be quick. No method raises: what can't be stored is learned again."""

    def load(self) -> dict[K, V]:
        """All that is stored, the oldest first."""

    def update(self, changes: Mapping[K, Callable[[V | None], V]]) -> bool:
        """Replace each stored value by what its function returns (it gets None if there is none), all in one
        transaction, so that another product on the same database loses nothing. False if that was not possible."""

    def forget(self) -> None:
        """Delete all."""
