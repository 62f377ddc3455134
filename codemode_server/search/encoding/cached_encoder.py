"""Vectors that are known already, of documents on disk and of queries in memory; and batches for those that are not."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.encoding.client import LoadableEncoder
from codemode_server.search.encoding.vector_cache import VectorCache
from codemode_server.search.vectors import Vectors

_AT_ONCE = 32
"""Texts between two looks of who else wants the encoder, and between two writes to disk."""
_QUERIES = 512
"""Whose vectors are remembered."""
_HALF = np.dtype("<f2")
_Halves = NDArray[np.float16]


class CachedEncoder:
    """Implements `LoadableEncoder` by another one, which is asked only for what is not known."""

    def __init__(self, encoder: LoadableEncoder, kept: VectorCache | None) -> None:
        self._encoder = encoder
        self._kept = kept
        self._queries: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._remembering = threading.Lock()
        self.encoded = 0

    @property
    def told(self) -> str:
        return self._encoder.told

    @property
    def name(self) -> str:
        return self._encoder.name

    def load(self) -> None:
        self._encoder.load()

    def close(self) -> None:
        self._encoder.close()

    def documents(self, texts: Sequence[str]) -> Vectors:
        """With numbers of half precision, whether they come from disk or not, so that a restart changes no ranking."""
        if not texts:
            return self._encoder.documents(())
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        vectors = self._known(list(text_of))
        self.encoded += sum(key in vectors for key in keys)
        # Of like length together: a batch costs what its longest text does.
        missing = sorted(text_of.keys() - vectors.keys(), key=lambda key: (len(text_of[key]), key))
        for start in range(0, len(missing), _AT_ONCE):
            batch = missing[start : start + _AT_ONCE]
            made: _Halves = self._encoder.documents([text_of[key] for key in batch]).astype(_HALF)
            vectors |= dict(zip(batch, made, strict=True))
            self.encoded += len(batch)
            if self._kept is not None:
                self._kept.put(self.name, {key: vectors[key].tobytes() for key in batch})
        return np.stack([vectors[key] for key in keys]).astype(np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        name = self.name
        with self._remembering:
            known = {text: self._queries[name, text] for text in texts if (name, text) in self._queries}
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        if missing:
            known |= dict(zip(missing, self._encoder.queries(missing), strict=True))
        with self._remembering:
            for text in known:
                self._queries[name, text] = known[text]
                self._queries.move_to_end((name, text))
            while len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        return np.stack([known[text] for text in texts])

    def _known(self, keys: list[bytes]) -> dict[bytes, _Halves]:
        """From disk, as far as they are all of one size."""
        blobs = self._kept.get(self.name, keys) if self._kept is not None else {}
        sizes = {len(blob) for blob in blobs.values()}
        if len(sizes) != 1 or not (size := sizes.pop()) or size % _HALF.itemsize:
            return {}
        vectors = {key: np.frombuffer(blob, _HALF) for key, blob in blobs.items()}
        return {key: vector for key, vector in vectors.items() if np.isfinite(vector).all()}
