"""Combines lexical scores and vector similarity into one ranking.

Both are scaled to 0…1 over the allowed documents and added, which beat rank fusion on five public sets
(`benchmarks/SEARCH.md`). A query with several subqueries is ranked as a whole and by each subquery, of which the best
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.search.actions import agreement, is_short, short_agreements, short_parts, subqueries
from codemode_server.search.documents import Findable
from codemode_server.search.lexical import LexicalIndex, Scores, nothing_related
from codemode_server.search.usage_stats import with_usage_boost
from codemode_server.search.vectors import VectorIndex

_WORDS = 0.4
"""Weight of lexical scores relative to vectors of the static table, for one subquery."""
_WORDS_WITH_MODEL = 0.35
"""The same if a model and the static table both provide vectors."""
_WORDS_SEVERAL = 0.3
"""The same if there are several subqueries; the words of the whole query count as well."""
_WORDS_SHORT = 0.6
"""The same for a part of a short query: a word or two has many neighbours in meaning."""
_WHOLE = 0.4
"""Weight of the whole query's lexical score relative to its best subquery, with vectors."""
_WHOLE_BY_WORDS = 0.5
"""The same without vectors."""
_SECOND_ENCODER = 0.3
_ACTION = 0.2
"""Weight of the agreement of verbs: lowers or raises a score by up to a tenth."""
_SERVER = 0.2
_SERVER_WITHOUT_MEANING = 0.25
_PART_STEP = 0.001
"""Difference between the scores of the best tools of the parts of a short query."""
_SPREAD = 0.4
"""Minimum range by which similarities are scaled: in a small set of tools all, or none, may be similar."""
_BEYOND = 40


@dataclass(frozen=True, slots=True)
class Scored:
    thing: Findable
    score: float
    """0 to about 1.3; comparable within one query only. The usage boost changes the order, not the score."""
    nearness: tuple[float, ...] = ()
    """Cosine by the static table with the query, and with each of its parts; empty without vectors."""
    also: tuple[Tool, ...] = ()
    """The equivalent tools of other servers that it stands for."""


def rank(
    index: LexicalIndex,
    vectors: VectorIndex | None,
    query: str,
    allowed: NDArray[np.bool_] | None,
    limit: int,
    usage_boost: Scores | None = None,
    second_vectors: VectorIndex | None = None,
) -> list[Scored]:
    """At most `limit` results with a score, best first; ties keep the order of the index. `allowed` masks its things;
    `second_vectors` are of the next best encoder, which has less weight; `usage_boost` is the usage of each thing, 0 to
    2."""
    among = np.arange(len(index.things)) if allowed is None else np.flatnonzero(allowed)
    if not len(among):
        return []
    several = subqueries(query)
    short = () if several else short_parts(query)
    parts = several or (query, *short)
    near_words = (second_vectors or vectors).near_words if vectors is not None else None
    related = near_words.of if near_words is not None else nothing_related
    asked = (query, *(several or short))
    by_words = np.stack([_scaled(row) for row in index.scores(asked, related)[:, among]])
    fits = by_words[1:] if several else by_words
    near: Scores = np.zeros((0, len(among)), np.float32)
    if vectors is not None:
        similarity, similar_server, near = _similarity(vectors, second_vectors, query, parts, among)
        one_subquery = _WORDS if second_vectors is None else _WORDS_WITH_MODEL
        share = np.full((len(parts), 1), _WORDS_SEVERAL if several else one_subquery, np.float32)
        share[1 : 1 + len(short)] = _WORDS_SHORT
        fits = share * fits + (1 - share) * similarity
        server = _SERVER * similar_server[index.segment_of[among]]
    else:
        # A matching server alone does not make a tool a result.
        server = _scaled(index.segment_scores(query))[index.segment_of[among]]
        server *= _SERVER_WITHOUT_MEANING * (fits.max(axis=0) > 0)
    kinds = index.kinds[among]
    if is_short(query) and index.has_words_of(query):
        fits *= 1 + _ACTION * short_agreements(parts, kinds)
    else:
        fits *= 1 + _ACTION * np.stack([agreement(part, kinds) for part in parts])
    scores: Scores = fits[0]
    if several:
        weight = _WHOLE if vectors is not None else _WHOLE_BY_WORDS
        scores = (1 - weight) * fits.max(axis=0) + weight * by_words[0]
    scores += server
    if short:
        scores = _with_best_of_parts(scores, np.where(fits[1:] > 0, fits[1:] + server, 0))
    best = _best(scores, limit + _BEYOND)
    if usage_boost is not None:
        best = with_usage_boost(best, scores, usage_boost[among], limit)
    shown = [number for number in best[:limit] if scores[number] > 0]
    return [Scored(index.things[among[at]], float(scores[at]), tuple(near[:, at].tolist())) for at in shown]


def _with_best_of_parts(scores: Scores, of_parts: Scores) -> Scores:
    """Moves the best result of each part (one row each) to the top, in the order of the parts."""
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
    if len(scores) <= limit:
        return np.argsort(-scores, kind="stable")
    likely = np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])
    return likely[np.argsort(-scores[likely], kind="stable")][:limit]


def _similarity(
    vectors: VectorIndex, second: VectorIndex | None, query: str, parts: Sequence[str], among: NDArray[np.intp]
) -> tuple[Scores, Scores, Scores]:
    """Similarity of each thing to each part, and of each segment to the query, 0 to 1, by one or two encoders; and the
    cosine of each thing with the query and each part by the weakest."""
    near, near_segments = vectors.similarity([query, *parts])
    near = near[:, among]
    things, servers = np.stack([_scaled_range(row) for row in near[1:]]), _scaled_range(near_segments[0])
    if second is not None:
        other_things, other_servers, near = _similarity(second, None, query, parts, among)
        things = (1 - _SECOND_ENCODER) * things + _SECOND_ENCODER * other_things
        servers = (1 - _SECOND_ENCODER) * servers + _SECOND_ENCODER * other_servers
    return things, servers, near


def _scaled(scores: Scores) -> Scores:
    high = scores.max()
    return scores / high if high > 0 else scores


def _scaled_range(nearness: Scores) -> Scores:
    """Scaled to 1 for the most similar; the least similar gets 0 if the range is at least `_SPREAD`."""
    high, low = float(nearness.max()), float(nearness.min())
    return 1 - (high - nearness) / max(high - low, _SPREAD)
