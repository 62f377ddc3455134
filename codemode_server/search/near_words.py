"""Words of the corpus that mean about the same as a word of a query, by the static table: `photo` matches `image`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.static import StaticEncoder
from codemode_server.search.words import stem

_MAX_WORDS = 12
_MIN_COSINE = 0.3
_MAX_CACHED = 2_000


class NearWords:
    """The words of a corpus with their vectors."""

    def __init__(self, encoder: StaticEncoder, words: Sequence[str], before: NearWords | None = None) -> None:
        """Reuses the vectors of the words of `before`. Words that the table has only in pieces are left out: they are
        joined names, and there is no limit to them."""
        known: dict[str, NDArray[np.float32]] = before.rows if before is not None else {}
        new = [word for word in words if word not in known and encoder.has_word(word)]
        rows = known | dict(zip(new, encoder.queries(new), strict=True))
        self._encoder = encoder
        self.rows: dict[str, NDArray[np.float32]] = {word: rows[word] for word in words if word in rows}
        self._stems = [stem(word) for word in self.rows]
        self._vectors = np.array(list(self.rows.values()), np.float32)
        self.of = lru_cache(_MAX_CACHED)(self._of)
        """The stems of the nearest words with a weight, 0 to 1."""

    def _of(self, word: str) -> dict[str, float]:
        if not len(self._vectors):
            return {}
        cosines = self._vectors @ self._encoder.queries([word])[0]
        found: dict[str, float] = {}
        likely = np.flatnonzero(cosines > _MIN_COSINE)
        for number in likely[np.argsort(-cosines[likely], kind="stable")[:_MAX_WORDS]]:
            found.setdefault(self._stems[number], float(cosines[number] - _MIN_COSINE) / (1 - _MIN_COSINE))
        found.pop(stem(word), None)
        return found
