"""What it is worth to remember which tools are used: a history is replayed, then other queries are asked.

Two weeks of 200 programs. A team has thirty everyday tools, some far more everyday than others (Zipf), and every fifth
program is about anything. What is asked afterwards are queries that the history did not hold, as often as the team
would ask them. Every tenth call is of a wrong tool among those found.

    everyday    the history of the very team
    even        every query of one half once: nothing is more everyday than anything else
    misleading  the history of a team with other everyday tools
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.search.corpora import Corpus, catalog_of, ids_of
from benchmarks.search.metrics import DEPTH, ndcg
from codemode_server.catalog.catalog import Tool
from codemode_server.domain.principals import Session
from codemode_server.domain.tool_store import ToolStore
from codemode_server.search.documents import Findable, collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.search.vectors import Encoder, VectorIndex

HISTORIES = ("everyday", "even", "misleading")
_PROGRAMS = 200
_EVERYDAY = 30
_ANYTHING = 0.2
_WRONG = 0.1
_SECONDS = 14 * 86_400
_SESSION = Session("replayed")


@dataclass(frozen=True, slots=True)
class Replayed:
    """nDCG@10 of what was asked after a history."""

    without: float
    with_usage: float
    unused: int
    """Right tools that the history never called and that are among the first ten without it."""
    lost: int
    """Of these, how many no longer are."""


@dataclass(frozen=True, slots=True)
class _History:
    programs: list[int]
    """Numbers of the queries, in order."""
    asked: dict[int, float]
    """Numbers of other queries, and how often each is asked; together 1."""


class Replays:
    """The histories of one corpus, ranked by one level."""

    def __init__(self, corpus: Corpus, encoder: Encoder | None = None) -> None:
        catalog = catalog_of(corpus.entries)
        self._corpus = corpus
        self._ids = ids_of(catalog, corpus.entries)
        self._names = {key: ToolName(*name) for name, key in self._ids.items()}
        self._index = LexicalIndex(collections(catalog))
        self._vectors = None if encoder is None else VectorIndex(encoder, self._index)
        self._found: dict[int, list[Findable]] = {}

    def replayed(self, kind: str, seed: int, kept: ToolStore[ToolName, Use]) -> Replayed:
        """`kept` holds nothing yet."""
        chance = random.Random(seed)
        history = _history(self._corpus, kind, chance)
        clock = 1_800_000_000.0
        usage = UsageStats(kept, now=lambda: clock)
        used: set[ToolName] = set()
        for number in history.programs:
            clock += _SECONDS / len(history.programs)
            found = self._without(number)
            usage.found(_SESSION, found)
            right = sorted(self._corpus.queries[number].relevant)
            called = [self._names[key] for key in right if key in self._names]
            if found and chance.random() < _WRONG * len(called):
                wrong = chance.choice(found)
                called += [ToolName(wrong.server, wrong.name)] if isinstance(wrong, Tool) else []
            usage.used(_SESSION, called)
            used.update(called)
        unused, lost = self._fallen_out(history, usage, used)
        without = sum(often * self._gain(number, self._without(number)) for number, often in history.asked.items())
        with_it = sum(
            often * self._gain(number, self._ranked(number, usage)) for number, often in history.asked.items()
        )
        return Replayed(without, with_it, unused, lost)

    def _fallen_out(self, history: _History, usage: UsageStats, used: set[ToolName]) -> tuple[int, int]:
        """Right tools that were not used: how many there were among the first ten, and how many were pushed out."""
        unused = lost = 0
        for number in history.asked:
            right = {self._names[key] for key in self._corpus.queries[number].relevant if key in self._names} - used
            before = right & _tools(self._without(number))
            unused += len(before)
            lost += len(before - _tools(self._ranked(number, usage)))
        return unused, lost

    def _without(self, number: int) -> list[Findable]:
        if number not in self._found:
            self._found[number] = self._ranked(number, None)
        return self._found[number]

    def _ranked(self, number: int, usage: UsageStats | None) -> list[Findable]:
        boost = usage.usage_boost(self._index) if usage else None
        text = self._corpus.queries[number].text
        return [one.thing for one in rank(self._index, self._vectors, text, None, DEPTH, boost)]

    def _gain(self, number: int, found: Sequence[Findable]) -> float:
        ids = [self._ids[one.server, one.name] for one in found if isinstance(one, Tool)]
        return ndcg(ids, self._corpus.queries[number].relevant)


def _tools(found: Sequence[Findable]) -> set[ToolName]:
    return {ToolName(one.server, one.name) for one in found if isinstance(one, Tool)}


def _history(corpus: Corpus, kind: str, chance: random.Random) -> _History:
    """Of a tool with several queries, some are in the history and some are asked."""
    queries_of: dict[str, list[int]] = {}
    for number, query in enumerate(corpus.queries):
        for key in sorted(query.relevant):
            queries_of.setdefault(key, []).append(number)
    several = [key for key, numbers in queries_of.items() if len(numbers) > 1]
    past = _halved(len(corpus.queries), [queries_of[key] for key in chance.sample(several, len(several))], chance)
    if kind == "even":
        asked = [number for number, is_past in enumerate(past) if not is_past]
        programs = [number for number, is_past in enumerate(past) if is_past]
        chance.shuffle(programs)
        return _History(programs, dict.fromkeys(asked, 1 / len(asked)))
    teams = chance.sample(several, min(2 * _EVERYDAY, len(several) // 2 * 2))
    team, other = teams[: len(teams) // 2], teams[len(teams) // 2 :]
    often = _often([queries_of[key] for key in team], past, True)
    numbers = sorted(often)
    programs = chance.choices(numbers, [often[number] for number in numbers], k=_PROGRAMS)
    asking = other if kind == "misleading" else team
    return _History(programs, _often([queries_of[key] for key in asking], past, False))


def _halved(count: int, groups: list[list[int]], chance: random.Random) -> list[bool]:
    """For each query whether it is of the past: about half of each group."""
    past: dict[int, bool] = {}
    for group in groups:
        for number in chance.sample(group, len(group)):
            if number not in past:
                known = [past[other] for other in group if other in past]
                past[number] = 2 * sum(known) <= len(known)
    return [past[number] if number in past else chance.random() < 0.5 for number in range(count)]


def _often(team: list[list[int]], past: list[bool], of_past: bool) -> dict[int, float]:
    """How often a team asks each query of one half: together 1."""
    half = [number for number, is_past in enumerate(past) if is_past is of_past]
    often = dict.fromkeys(half, _ANYTHING / len(half))
    groups = [[number for number in group if past[number] is of_past] for group in team]
    whole = sum(1 / place for place, group in enumerate(groups, 1) if group)
    for place, group in enumerate(groups, 1):
        for number in group:
            often[number] += (1 - _ANYTHING) / place / whole / len(group)
    total = sum(often.values())
    return {number: value / total for number, value in often.items()}
