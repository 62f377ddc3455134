"""Words and meaning together: one order of all that can be found.

The scores of both are brought to 0…1 over what may be found and added, which beat merging ranks on five public sets
(`benchmarks/SEARCH.md`). A query with several wants is ranked as a whole and by each want, which counts by its best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.actions import agreement
from codemode_server.search.documents import Findable
from codemode_server.search.habits import lifted
from codemode_server.search.languages import in_english
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.subject import subject_of
from codemode_server.search.vectors import VectorIndex
from codemode_server.search.wants import wants

_WORDS = 0.4
"""Weight of words beside meaning, for one want."""
_WORDS_SEVERAL = 0.3
"""The same where there are several, whose words are looked for as a whole besides."""
_WHOLE = 0.4
"""Weight of the words of the whole query beside the best of its wants, with vectors."""
_WHOLE_BY_WORDS = 0.5
"""The same without vectors."""
_FIRST_ENCODER = 0.7
"""Weight of the best encoder's vectors where there are two."""
_COVERAGE = 0.1
"""Weight, within words, of how much of a thing's name was asked for."""
_ACTION = 0.2
"""How much it counts that a thing does what is asked for: from a tenth less to a tenth more."""
_SUBJECT = 0.5
"""Weight, within meaning, of the subject of a want beside all of it."""
_SERVER = 0.2
"""Weight of how well the server as a whole fits; by meaning, where there are vectors."""
_SERVER_BY_WORDS = 0.08
"""The same by words, beside meaning."""
_SPREAD = 0.4
"""The least difference in nearness that counts in full: where little can be found, all may be near, or nothing."""
MOST_UNNAMED = 1.5
"""More than what is not named ever scores."""
_BEYOND = 40
"""Places below the last one that is shown among which habits may choose."""
_NAMED = 1.0
"""What being named outright is worth: more than all else."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One thing that was found."""

    thing: Findable
    score: float
    """How well it fits, 0 to about 1.3, and 1 more if it was named; comparable within one answer only. Habits are not
    in it, but in the order."""


def rank(
    index: LexicalIndex,
    vectors: Sequence[VectorIndex],
    query: str,
    may_be: NDArray[np.bool_] | None,
    limit: int,
    prior: Scores | None = None,
) -> list[Scored]:
    """The best first, at most `limit`; of equals, the order of the index decides.

    `may_be` says of each thing of the index whether it may be found. Things that have nothing to do with the query
    are left out. `vectors` are those of the best encoder first, and of no more than one other; `prior` says how much
    each is used.
    """
    among = np.arange(len(index.things)) if may_be is None else np.flatnonzero(may_be)
    if not len(among):
        return []
    named = index.names.in_query(query)
    query = in_english(query, index.says)
    several = wants(query)
    parts = several or (query,)
    fits = np.stack([_words_of(index, part, among) for part in parts])
    whole = _share(index.scores(query)[among]) if several else None
    server = _share(index.segment_scores(query))[index.segment_of[among]]
    if vectors:
        meanings, near_server = _meaning(vectors, query, several, among)
        share = _WORDS_SEVERAL if several else _WORDS
        fits = share * fits + (1 - share) * meanings
        server = _SERVER * near_server[index.segment_of[among]] + _SERVER_BY_WORDS * server
    else:
        # Where no word is there, a good server or the right action makes nothing of it.
        server *= _SERVER * (fits.max(axis=0) > 0)
    kinds = index.kinds[among]
    fits *= 1 + _ACTION * np.stack([agreement(part, kinds) for part in parts])
    scores: Scores = fits.max(axis=0)
    if whole is not None:
        weight = _WHOLE if vectors else _WHOLE_BY_WORDS
        scores = (1 - weight) * scores + weight * whole
    scores += server
    if named:
        scores[np.isin(among, list(named))] += _NAMED
    best = _best(scores, limit + _BEYOND)
    if prior is not None:
        best = lifted(best, scores, prior[among], limit)
    return [Scored(index.things[among[number]], float(scores[number])) for number in best[:limit] if scores[number] > 0]


def _best(scores: Scores, limit: int) -> NDArray[np.intp]:
    """The numbers of the best, in their order; of equals, the first."""
    if len(scores) <= limit:
        return np.argsort(-scores, kind="stable")
    likely = np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])
    return likely[np.argsort(-scores[likely], kind="stable")][:limit]


def _meaning(
    vectors: Sequence[VectorIndex], query: str, several: Sequence[str], among: NDArray[np.intp]
) -> tuple[Scores, Scores]:
    """How near each thing is to each want, and each segment to the query, 0 to 1."""
    parts = several or (query,)
    texts = [query, *several, *map(subject_of, parts)]
    weights = (1.0,) if len(vectors) == 1 else (_FIRST_ENCODER, 1 - _FIRST_ENCODER)
    things: Scores = np.zeros((len(parts), len(among)), np.float32)
    segments: Scores = np.zeros(len(vectors[0].segments), np.float32)
    for weight, one in zip(weights, vectors, strict=False):
        near, near_segments = one.nearness(texts)
        wanted = near[1 if several else 0 : -len(parts)] + _SUBJECT * near[-len(parts) :]
        things += weight * np.stack([_fit(row) for row in wanted[:, among]])
        segments += weight * _fit(near_segments[0])
    return things, segments


def _words_of(index: LexicalIndex, want: str, among: NDArray[np.intp]) -> Scores:
    """How well the words of each thing fit one want, 0 to 1."""
    scores, coverage = index.fit(want, subject_of(want))
    scores = _share(scores[among])
    return _share((1 - _COVERAGE) * scores + _COVERAGE * coverage[among] * np.minimum(1, 2 * scores))


def _share(scores: Scores) -> Scores:
    """0 for what has none of the words, 1 for the best."""
    high = scores.max()
    return scores / high if high > 0 else scores


def _fit(nearness: Scores) -> Scores:
    """0 for the farthest, 1 for the nearest."""
    high, low = float(nearness.max()), float(nearness.min())
    return 1 - (high - nearness) / max(high - low, _SPREAD)
