"""The product's encoders; what a model gives is kept in .cache by content, so that it is asked once for each text."""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from codemode_server.domain.errors import CodemodeError
from codemode_server.search.encoding.build_encoders import SemanticEncoder, TableEncoder
from codemode_server.search.encoding.client import LoadableEncoder
from codemode_server.search.vectors import Encoder, Vectors
from codemode_server.settings import SearchSettings

_AT_ONCE = 32
_KEPT_EVERY = 1_000
CACHE = Path(__file__).parents[2] / ".cache" / "search"


class Unavailable(Exception):
    """Raised when a level can't load here; the message says why."""


def encoder_of(level: str) -> LoadableEncoder:
    """What the product uses for a level, loaded; the caller closes it.

    Raises:
        Unavailable: it isn't here, or doesn't load.
    """
    encoder: LoadableEncoder = TableEncoder()
    if level == "semantic":
        encoder = SemanticEncoder(SearchSettings(ranker="semantic"), may_download=False)
    try:
        encoder.load()
    except CodemodeError as error:
        raise Unavailable(str(error)) from error
    return encoder


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
        self._saved = {side: len(known) for side, known in self._known.items()}

    def documents(self, texts: Sequence[str]) -> Vectors:
        return self._of("documents", texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._of("queries", texts)

    def save(self) -> None:
        """Keep what is new, beside what other runs kept meanwhile."""
        CACHE.mkdir(parents=True, exist_ok=True)
        for side, file in self._files.items():
            if len(self._known[side]) > self._saved[side]:
                with file.with_suffix(".lock").open("w") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    known = self._known[side] = _read(file) | self._known[side]
                    fresh = file.with_suffix(".new.npz")
                    np.savez(fresh, keys=np.array(list(known), "S32"), vectors=np.stack(list(known.values())))
                    fresh.replace(file)
                self._saved[side] = len(known)

    def _of(self, side: str, texts: Sequence[str]) -> Vectors:
        known = self._known[side]
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32].encode() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            encode = self._encoder.documents if side == "documents" else self._encoder.queries
            # Of about one length together: a batch costs what its longest text costs.
            ordered = sorted(new, key=lambda key: len(new[key]))
            for start in range(0, len(ordered), _AT_ONCE):
                batch = ordered[start : start + _AT_ONCE]
                known.update(zip(batch, encode([new[key] for key in batch]), strict=True))
                if len(known) > self._saved[side] + _KEPT_EVERY:
                    self.save()
                    known = self._known[side]
        return np.stack([known[key] for key in keys])


def _read(file: Path) -> dict[bytes, Vectors]:
    if not file.exists():
        return {}
    with np.load(file) as kept:
        return dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))
