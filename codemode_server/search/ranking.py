"""Words and meaning together: one order of all that can be found.

The scores of both are brought to 0…1 over what may be found and added, which beat merging ranks on five public sets
(`benchmarks/SEARCH.md`). A query with several wants is ranked as a whole and by each want, which counts by its best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.actions import agreement, short_agreements
from codemode_server.search.documents import Findable
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.query_focus import subject_of
from codemode_server.search.subqueries import is_short, short_parts, wants
from codemode_server.search.usage_stats import lifted
from codemode_server.search.vectors import VectorIndex

_WORDS = 0.4
"""Weight of words beside the meaning by the static table, for one want."""
_WORDS_BESIDE_MODEL = 0.35
"""The same where a model knows the meaning better and the static table counts besides."""
_WORDS_SEVERAL = 0.3
"""The same where there are several, whose words are looked for as a whole besides."""
_WORDS_SHORT = 0.6
"""The same for a part of a short query, a word or two whose neighbours in meaning are many."""
_WHOLE = 0.4
"""Weight of the words of the whole query beside the best of its wants, with vectors."""
_WHOLE_BY_WORDS = 0.5
"""The same without vectors."""
_BESIDE = 0.3
"""Weight of the vectors of the second encoder, where there are two."""
_ACTION = 0.2
"""How much it counts that a thing does what is asked for: from a tenth less to a tenth more."""
_SUBJECT = 0.5
"""Weight, within meaning, of the subject of a want beside all of it."""
_SERVER = 0.2
"""Weight of how well the server as a whole fits by meaning."""
_SERVER_WITHOUT_MEANING = 0.25
"""The same by words, where there are no vectors."""
_SERVER_BY_WORDS = 0.08
"""The same by words, beside meaning."""
_PART_STEP = 0.001
"""Difference between the scores of the best tools of the parts of a short query."""
_SPREAD = 0.4
"""The least difference in nearness that counts in full: where little can be found, all may be near, or nothing."""
_BEYOND = 40
"""Places below the last one that is shown among which habits may choose."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One thing that was found."""

    thing: Findable
    score: float
    """How well it fits, 0 to about 1.3; comparable within one answer only. UsageStats change the order alone."""


def rank(
    index: LexicalIndex,
    vectors: VectorIndex | None,
    query: str,
    may_be: NDArray[np.bool_] | None,
    limit: int,
    prior: Scores | None = None,
    beside: VectorIndex | None = None,
) -> list[Scored]:
    """The best first, at most `limit`; of equals, the order of the index decides.

    `may_be` says of each thing of the index whether it may be found. Things that have nothing to do with the query
    are left out. `vectors` are those of the best encoder that is ready, `beside` those of the next best, which
    count a little; `prior` says how much each thing is used.
    """
    among = np.arange(len(index.things)) if may_be is None else np.flatnonzero(may_be)
    if not len(among):
        return []
    several = wants(query)
    short = () if several else short_parts(query)
    parts = several or (query, *short)
    fits = np.stack([_share(index.scores(part, may_be_name=part == query)[among]) for part in parts])
    whole = _share(index.scores(query)[among]) if several else None
    server = _share(index.segment_scores(query))[index.segment_of[among]]
    if vectors is not None:
        meanings, near_server = _meaning(vectors, query, parts, among)
        if beside is not None:
            others, others_server = _meaning(beside, query, parts, among)
            meanings = (1 - _BESIDE) * meanings + _BESIDE * others
            near_server = (1 - _BESIDE) * near_server + _BESIDE * others_server
        one_want = _WORDS if beside is None else _WORDS_BESIDE_MODEL
        share = np.full((len(parts), 1), _WORDS_SEVERAL if several else one_want, np.float32)
        share[1 : 1 + len(short)] = _WORDS_SHORT
        fits = share * fits + (1 - share) * meanings
        server = _SERVER * near_server[index.segment_of[among]] + _SERVER_BY_WORDS * server
    else:
        # Where no word is there, a good server or the right action makes nothing of it.
        server *= _SERVER_WITHOUT_MEANING * (fits.max(axis=0) > 0)
    kinds = index.kinds[among]
    if is_short(query) and index.has_words_of(query):
        fits *= 1 + _ACTION * short_agreements(parts, kinds)
    else:
        fits *= 1 + _ACTION * np.stack([agreement(part, kinds) for part in parts])
    scores: Scores = fits.max(axis=0) if several else fits[0]
    if whole is not None:
        weight = _WHOLE if vectors is not None else _WHOLE_BY_WORDS
        scores = (1 - weight) * scores + weight * whole
    scores += server
    if short:
        scores = _with_best_of_parts(scores, np.where(fits[1:] > 0, fits[1:] + server, 0))
    best = _best(scores, limit + _BEYOND)
    if prior is not None:
        best = lifted(best, scores, prior[among], limit)
    return [Scored(index.things[among[number]], float(scores[number])) for number in best[:limit] if scores[number] > 0]


def _with_best_of_parts(scores: Scores, of_parts: Scores) -> Scores:
    """The scores with the best of each part, a row each, brought to the top in the order of the parts."""
    top = scores.max()
    scores = scores.copy()
    taken: list[int] = []
    for row in of_parts:
        row = row.copy()
        row[taken] = 0
        if row.max() > 0:
            taken.append(int(row.argmax()))
    for place, number in enumerate(taken):
        scores[number] = top + _PART_STEP * (len(taken) - place)
    return scores


def _best(scores: Scores, limit: int) -> NDArray[np.intp]:
    """The numbers of the best, in their order; of equals, the first."""
    if len(scores) <= limit:
        return np.argsort(-scores, kind="stable")
    likely = np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])
    return likely[np.argsort(-scores[likely], kind="stable")][:limit]


def _meaning(vectors: VectorIndex, query: str, parts: Sequence[str], among: NDArray[np.intp]) -> tuple[Scores, Scores]:
    """How near each thing is to each part, and each segment to the query, 0 to 1."""
    texts = [query, *parts, *map(subject_of, parts)]
    near, near_segments = vectors.nearness(texts)
    wanted = near[1 : 1 + len(parts)] + _SUBJECT * near[1 + len(parts) :]
    return np.stack([_fit(row) for row in wanted[:, among]]), _fit(near_segments[0])


def _share(scores: Scores) -> Scores:
    """0 for what has none of the words, 1 for the best."""
    high = scores.max()
    return scores / high if high > 0 else scores


def _fit(nearness: Scores) -> Scores:
    """0 for the farthest, 1 for the nearest."""
    high, low = float(nearness.max()), float(nearness.min())
    return 1 - (high - nearness) / max(high - low, _SPREAD)
