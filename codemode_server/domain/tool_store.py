"""The contract of stores that hold one small value for each tool between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ToolStore(Protocol[K, V]):
    """No method raises: what can't be stored is learned again. Only `load`, at the start, waits for the disk."""

    def load(self) -> dict[K, V]:
        """All that is stored, the oldest first."""

    async def update(self, changes: Mapping[K, Callable[[V | None], V]]) -> bool:
        """Replace each stored value by what its function returns (it gets None if there is none), all in one
        transaction, so that another product on the same database loses nothing. False if that was not possible.

        The functions run in another thread, and again after a failure."""

    def forget(self) -> None:
        """Delete all."""
