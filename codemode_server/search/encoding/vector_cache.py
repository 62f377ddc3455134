"""The contract of where vectors are kept between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class VectorCache(Protocol):
    """Vectors by the model that made them and the key of their text. A cache: it forgets, and never fails."""

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those of the asked that are there."""

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep some more."""
