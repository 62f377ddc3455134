"""Counts how often each tool is used, and boosts frequently used tools among results with similar scores.

An execution counts once for each tool that answered it, and more if a recent search of the same session returned the
tool. Queries are not stored: boosting by words of past queries ranked worse for teams that asked for something new
(`benchmarks/SEARCH.md`).

The boost is proportional to the score, so unrelated tools stay out. It moves up at most `MAX_BOOSTED` results of a
search, so no result falls by more places than that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.principals import Session
from codemode_server.domain.tool_store import ToolStore
from codemode_server.search.documents import Findable
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.usage_store import ToolName, Use

MAX_TOOLS = 2_000
"""Maximum number of tools in the statistics; the least recently used are dropped."""
MAX_BOOSTED = 3
"""Results that the boost may move up in one search, and so the number of places that a result may fall."""
_MAX_BOOST = 0.1
"""The strongest boost, as a share of the score."""
_BEYOND_LIMIT = 30
"""Results beyond the limit that may be moved up."""
_FEW_USES, _MANY_USES = 3.0, 20.0
"""Up to the first number of uses the boost grows slowly; from the second on it no longer grows."""

_FOUND, _NOT_FOUND = 1.0, 0.5
"""Count of a use after a search of the session returned the tool, and of any other use."""
_MAX_AT_ONCE = 50
"""Tools of one execution that are counted; a program that calls hundreds shows no preference."""
_FOUND_SECONDS = 1_800.0
_MAX_SESSIONS = 64
_MAX_FOUND = 300
"""Maximum number of search results remembered for each session."""
_BOOSTS_SECONDS = 3_600.0

_NEVER = Use(0.0, 0.0)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class UsageStats:
    """How often each tool is used in this installation."""

    def __init__(
        self, store: ToolStore[ToolName, Use], config: LiveConfig | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        """`store` keeps the counts between runs. If `search.habits` is off, nothing is counted."""
        self._store = store
        self._config = config or LiveConfig()
        self._now = now
        self._is_loaded = False
        self._known: dict[ToolName, Use] = {}
        """Replaced, never changed: searches in other threads read it."""
        self._unsaved: dict[ToolName, float] = {}
        self._found: dict[str, dict[ToolName, float]] = {}
        """For each session, the time until which each tool counts as found."""
        self._boosts: _UsageBoosts | None = None

    @property
    def _is_on(self) -> bool:
        return self._config.settings.search.habits

    def follow_config(self) -> None:
        """Deletes all counts if `search.habits` is off."""
        if not self._is_on and (self._known or self._found):
            self._known, self._unsaved, self._found = {}, {}, {}
            self._store.forget()

    def load(self) -> None:
        """Loads the stored counts. Later calls do nothing."""
        if self._is_loaded:
            return
        self._is_loaded = True
        if self._is_on:
            self._known = self._store.load()
        else:
            self._store.forget()

    def found(self, session: Session, things: Iterable[Findable]) -> None:
        """Records the results of a search of the session."""
        if not self._is_on or session.is_ephemeral:
            return
        until = self._now() + _FOUND_SECONDS
        known = self._found.pop(session.session_id, {})
        for thing in things:
            if isinstance(thing, Tool):
                name = ToolName(thing.server, thing.name)
                known.pop(name, None)
                known[name] = until
        self._found[session.session_id] = _newest(known, _MAX_FOUND)
        self._found = _newest(self._found, _MAX_SESSIONS)

    def used(self, session: Session, tools: Iterable[ToolName]) -> None:
        """Records the tools that answered an execution of the session; each counts once."""
        if not self._is_on:
            return
        self.load()
        now, totals = self._now(), dict[ToolName, Use]()
        found = self._found.get(session.session_id, {})
        for name in islice(dict.fromkeys(tools), _MAX_AT_ONCE):
            uses = _FOUND if found.get(name, 0.0) >= now else _NOT_FOUND
            self._unsaved[name] = self._unsaved.get(name, 0.0) + uses
            totals[name] = (self._known.get(name) or _NEVER).more(uses, now)
        if totals:
            self._replace(totals)

    def usage_boost(self, index: LexicalIndex) -> Scores | None:
        """The usage of each thing of the index, 0 to 1; None if none is used. Thread-safe."""
        known, now, boosts = self._known, self._now(), self._boosts
        if not known:
            return None
        if boosts is None or not boosts.is_of(index, known, now):
            self._boosts = boosts = _UsageBoosts(index, known, now)
        return boosts.strengths

    async def save(self) -> bool:
        """Writes the new counts; if that fails, they are written with the next ones."""
        if not self._unsaved:
            return True
        unsaved, self._unsaved = self._unsaved, {}
        now, totals = self._now(), dict[ToolName, Use]()

        def total(name: ToolName, known: Use | None) -> Use:
            totals[name] = (known or _NEVER).more(unsaved[name], now)
            return totals[name]

        is_stored = await self._store.update({name: partial(total, name) for name in unsaved})
        if not self._is_on:
            return True
        if is_stored:  # the totals include counts that other processes on the same database added
            self._replace({name: use.more(self._unsaved.get(name, 0.0), now) for name, use in totals.items()})
        else:
            self._unsaved = {
                name: unsaved.get(name, 0.0) + self._unsaved.get(name, 0.0) for name in unsaved | self._unsaved
            }
        return is_stored

    def _replace(self, totals: dict[ToolName, Use]) -> None:
        others = {name: use for name, use in self._known.items() if name not in totals}
        self._known = _newest(others | totals, MAX_TOOLS)


class _UsageBoosts:
    """The usage of each thing of one index at a point in time."""

    def __init__(self, index: LexicalIndex, known: dict[ToolName, Use], now: float) -> None:
        self._of = index, known, now
        by_server: dict[str, dict[str, float]] = {}
        for name, use in known.items():
            by_server.setdefault(f"servers/{name.server}", {})[name.tool] = _strength(use.as_of(now))
        strengths: Scores = np.zeros(len(index.things), np.float32)
        first = 0
        for segment in index.segments:
            things = segment.collection.things
            if used := by_server.get(segment.collection.key):
                for number, thing in enumerate(things, start=first):
                    strengths[number] = used.get(thing.name, 0.0)
            first += len(things)
        self.strengths = strengths if strengths.any() else None

    def is_of(self, index: LexicalIndex, known: dict[ToolName, Use], now: float) -> bool:
        of_index, of_known, at = self._of
        return of_index is index and of_known is known and 0 <= now - at < _BOOSTS_SECONDS


def with_usage_boost(order: NDArray[np.intp], scores: Scores, boosts: Scores, limit: int) -> NDArray[np.intp]:
    """The order by scores, best first, with up to `MAX_BOOSTED` results moved up by their usage.

    No result falls by more places than that, or rises past one whose score is higher than its boosted score.
    """
    head = order[: limit + _BEYOND_LIMIT]
    fit = scores[head]
    raised = fit * (1 + _MAX_BOOST * boosts[head])
    most = np.argsort(-np.where(raised > fit, raised, 0), kind="stable")[:MAX_BOOSTED]
    fit = fit.copy()
    fit[most] = raised[most]
    return np.concatenate([head[np.argsort(-fit, kind="stable")], order[len(head) :]])


def _strength(uses: float) -> float:
    """Scales a number of uses to 0…1, logarithmically."""
    return min(1.0, math.log1p(uses / _FEW_USES) / math.log1p(_MANY_USES / _FEW_USES))


def _newest(known: dict[_Key, _Value], most: int) -> dict[_Key, _Value]:
    return known if len(known) <= most else dict(islice(known.items(), len(known) - most, None))
