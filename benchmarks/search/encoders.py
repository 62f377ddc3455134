"""The product's encoders; what a model gives is kept in .cache by content, so that it is asked once for each text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from codemode_server.errors import CodemodeError
from codemode_server.search.vectors import Encoder, Vectors

CACHE = Path(__file__).parents[2] / ".cache" / "search"


class Unavailable(Exception):
    """Raised when a level can't load here; the message says why."""


def encoder_of(level: str, *, is_cached: bool = True) -> Encoder:
    """What the product uses for a level.

    Raises:
        Unavailable: it isn't here, or doesn't load.
    """
    try:
        if level == "static":
            from codemode_server.search.static import StaticEncoder

            return StaticEncoder()
        raise Unavailable(f"there is no level {level} yet")
    except (ImportError, CodemodeError) as error:
        raise Unavailable(str(error)) from error


class Cached:
    """An encoder whose vectors are kept on disk by the text they are of."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = encoder.name
        self._files = {
            side: CACHE / f"vectors-{re.sub(r'[^A-Za-z0-9.-]+', '-', encoder.name)}-{side}.npz"
            for side in ("documents", "queries")
        }
        self._known = {side: _read(file) for side, file in self._files.items()}

    def documents(self, texts: Sequence[str]) -> Vectors:
        return self._of("documents", texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._of("queries", texts)

    def fill(self, queries: Sequence[str]) -> None:
        """Ask for all these at once and keep them."""
        self._of("queries", queries)

    def save(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        for side, file in self._files.items():
            known = self._known[side]
            if known:
                fresh = file.with_suffix(".new.npz")
                np.savez(fresh, keys=np.array(list(known), "S32"), vectors=np.stack(list(known.values())))
                fresh.replace(file)

    def _of(self, side: str, texts: Sequence[str]) -> Vectors:
        known = self._known[side]
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32].encode() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            encode = self._encoder.documents if side == "documents" else self._encoder.queries
            known.update(zip(new, encode(list(new.values())), strict=True))
        return np.stack([known[key] for key in keys])


def _read(file: Path) -> dict[bytes, Vectors]:
    if not file.exists():
        return {}
    with np.load(file) as kept:
        return dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))
