"""Caches vectors, of documents on disk and of queries in memory; computes missing ones in batches."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.encoding.client import LoadableEncoder
from codemode_server.search.vectors import Vectors

_BATCH_TEXTS = 32
"""Texts of a batch. Queries can use the encoder between batches; each batch is written to disk."""
_MAX_CACHED_QUERIES = 512
"""Number of queries whose vectors are cached."""
_HALF = np.dtype("<f2")
_Halves = NDArray[np.float16]


class VectorCache(Protocol):
    """Vectors by model name and key of the text. Entries may be evicted; no method raises."""

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored vectors of these keys."""

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Adds vectors."""


class CachedEncoder:
    """A `LoadableEncoder` that calls another one only for texts without a cached vector."""

    def __init__(self, encoder: LoadableEncoder, cache: VectorCache | None) -> None:
        self._encoder = encoder
        self._cache = cache
        self._queries: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self.encoded = 0

    @property
    def description(self) -> str:
        return self._encoder.description

    @property
    def name(self) -> str:
        return self._encoder.name

    def load(self) -> None:
        self._encoder.load()

    def close(self) -> None:
        self._encoder.close()

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Half-precision vectors, cached or not, so that a restart does not change the ranking."""
        if not texts:
            return self._encoder.documents(())
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        vectors = self._known(list(text_of))
        self.encoded += sum(key in vectors for key in keys)
        # Sorted by length, since the longest text of a batch determines its cost.
        missing = sorted(text_of.keys() - vectors.keys(), key=lambda key: (len(text_of[key]), key))
        for start in range(0, len(missing), _BATCH_TEXTS):
            batch = missing[start : start + _BATCH_TEXTS]
            made: _Halves = self._encoder.documents([text_of[key] for key in batch]).astype(_HALF)
            vectors |= dict(zip(batch, made, strict=True))
            self.encoded += len(batch)
            if self._cache is not None:
                self._cache.put(self.name, {key: vectors[key].tobytes() for key in batch})
        return np.stack([vectors[key] for key in keys]).astype(np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        name = self.name
        with self._lock:
            known = {text: self._queries[name, text] for text in texts if (name, text) in self._queries}
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            known |= dict(zip(missing, self._encoder.queries(missing), strict=True))
        with self._lock:
            for text in known:
                self._queries[name, text] = known[text]
                self._queries.move_to_end((name, text))
            while len(self._queries) > _MAX_CACHED_QUERIES:
                self._queries.popitem(last=False)
        return np.stack([known[text] for text in texts])

    def _known(self, keys: list[bytes]) -> dict[bytes, _Halves]:
        """Vectors from disk; none if their sizes differ."""
        blobs = self._cache.get(self.name, keys) if self._cache is not None else {}
        sizes = {len(blob) for blob in blobs.values()}
        if len(sizes) != 1 or not (size := sizes.pop()) or size % _HALF.itemsize:
            return {}
        vectors = {key: np.frombuffer(blob, _HALF) for key, blob in blobs.items()}
        return {key: vector for key, vector in vectors.items() if np.isfinite(vector).all()}
