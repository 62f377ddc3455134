"""Words and meaning together: one order of all that can be found.

The scores of both are brought to 0…1 over what may be found and added, which beat merging ranks on five public sets
(`benchmarks/SEARCH.md`). A query with several wants is ranked as a whole and by each want, which counts by its best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.documents import Findable
from codemode_server.search.habits import lifted
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.vectors import VectorIndex
from codemode_server.search.wants import wants

_WORDS = 0.4
"""Weight of words beside meaning, for one want."""
_WORDS_SEVERAL = 0.5
_WHOLE = 0.5
"""Weight of the words of the whole query beside the best of its wants."""
_COVERAGE = 0.2
"""Weight, within words, of how much of a thing's name was asked for."""
_SERVER = 0.2
"""Weight of how well the server as a whole fits."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One thing that was found."""

    thing: Findable
    score: float
    """How well it fits, 0 to about 1.2; comparable within one answer only. Habits are not in it, but in the order."""


def rank(
    index: LexicalIndex,
    vectors: VectorIndex | None,
    query: str,
    may_be: NDArray[np.bool_] | None,
    limit: int,
    prior: Scores | None = None,
) -> list[Scored]:
    """The best first, at most `limit`; of equals, the order of the index decides.

    `may_be` says of each thing of the index whether it may be found. Things that have nothing to do with the query
    are left out. `prior` says how much each is used.
    """
    among = np.arange(len(index.things)) if may_be is None else np.flatnonzero(may_be)
    if not len(among):
        return []
    several = wants(query)
    words = _words_of(index, query, among)
    if several:
        each = np.max([_words_of(index, want, among) for want in several], axis=0)
        words = _share(_WHOLE * _share(index.scores(query)[among]) + (1 - _WHOLE) * each)
    has_words = words > 0
    if vectors is None:
        scores = words + _SERVER * _share(index.segment_scores(query))[index.segment_of[among]]
        scores = np.where(has_words, scores, 0)
    else:
        near, near_segments = vectors.nearness([query, *several])
        rows = near[1:, among] if several else near[:, among]
        meaning = np.max([_fit(row) for row in rows], axis=0)
        share = _WORDS_SEVERAL if several else _WORDS
        scores = share * words + (1 - share) * meaning
        scores += _SERVER * _fit(near_segments[0])[index.segment_of[among]]
    best = np.argsort(-scores, kind="stable")
    if prior is not None:
        best = lifted(best, scores, prior[among], limit)
    return [Scored(index.things[among[number]], float(scores[number])) for number in best[:limit] if scores[number] > 0]


def _words_of(index: LexicalIndex, want: str, among: NDArray[np.intp]) -> Scores:
    """How well the words of each thing fit one want, 0 to 1."""
    scores = _share(index.scores(want)[among])
    return (1 - _COVERAGE) * scores + _COVERAGE * index.coverage(want)[among] * np.minimum(1, 2 * scores)


def _share(scores: Scores) -> Scores:
    """0 for what has none of the words, 1 for the best."""
    high = scores.max()
    return scores / high if high > 0 else scores


def _fit(nearness: Scores) -> Scores:
    """0 for the farthest, 1 for the nearest."""
    low, high = nearness.min(), nearness.max()
    return (nearness - low) / (high - low) if high > low else np.ones_like(nearness)
