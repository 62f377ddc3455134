"""Storage contract of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class VectorCache(Protocol):
    """Vectors by model name and key of the text. Entries may be evicted; no method raises."""

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored vectors of these keys."""

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Adds vectors."""
