"""Counts how often each tool is used, and boosts among results with similar scores those that are used often and those
of servers that the session has called.

An execution counts once for each tool that answered it. Queries are not stored: boosting by words of past queries
ranked worse for teams that asked for something new (`benchmarks/SEARCH.md`).

The boost is proportional to the score, so unrelated tools stay out. It moves up at most `MAX_BOOSTED` results of a
search, so no result falls by more places than that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Set
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.principals import Owner
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.usage_store import ToolName, Use, load_uses

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache, Entry

MAX_TOOLS = 2_000
MAX_BOOSTED = 3
"""Results that the boost may move up in one search, and so the number of places that a result may fall."""
_MAX_BOOST = 0.1
_BEYOND_LIMIT = 30
_FEW_USES, _MANY_USES = 3.0, 20.0
"""Up to the first number of uses the boost grows slowly; from the second on it no longer grows."""
_MAX_AT_ONCE = 50
"""Tools of one execution that are counted; a program that calls hundreds shows no preference."""
_MAX_SESSIONS = 1_000
_NEVER = Use(0.0, 0.0)


class UsageStats:
    def __init__(self, store: Cache, config: LiveConfig | None = None, *, now: Callable[[], float] = time.time) -> None:
        """`store` keeps the counts between runs. If `search.habits` is off, nothing is counted."""
        self._store = store
        self._config = config or LiveConfig()
        self._now = now
        self._known: dict[ToolName, Use] = {}
        """Replaced, never changed: searches in other threads read it."""
        self._unsaved: dict[ToolName, float] = {}
        self._servers: dict[Owner, frozenset[str]] = {}
        """The servers that answered in each session, which are not stored; the session that called last is last."""
        self._boosts: tuple[LexicalIndex, dict[ToolName, Use], Scores | None] | None = None
        if self._is_on:
            self._known = load_uses(store)
        else:
            store.forget()

    @property
    def _is_on(self) -> bool:
        return self._config.settings.search.habits

    def follow_config(self) -> None:
        if not self._is_on and (self._known or self._servers):
            self._known, self._unsaved, self._servers = {}, {}, {}
            self._store.forget()

    def used(self, tools: Iterable[ToolName], owner: Owner | None = None) -> None:
        """Records the tools that answered an execution, of a session if it has one; each counts once."""
        if not self._is_on:
            return
        now, totals = self._now(), dict[ToolName, Use]()
        for name in islice(dict.fromkeys(tools), _MAX_AT_ONCE):
            self._unsaved[name] = self._unsaved.get(name, 0.0) + 1
            totals[name] = (self._known.get(name) or _NEVER).more(1, now)
        if totals:
            self._replace(totals)
        if totals and owner is not None and not owner.session.is_ephemeral:
            self._servers[owner] = self._servers.pop(owner, frozenset()) | {name.server for name in totals}
            while len(self._servers) > _MAX_SESSIONS:
                del self._servers[next(iter(self._servers))]

    def servers_of(self, owner: Owner) -> frozenset[str]:
        """The servers that answered calls of a session, by their Python names."""
        return self._servers.get(owner, frozenset())

    def usage_boost(self, index: LexicalIndex, servers: Set[str] = frozenset()) -> Scores | None:
        """The usage of each thing of the index, 0 to 1, plus 1 for the tools of `servers`, which a session has called;
        None if none is used. Thread-safe."""
        usage, in_session = self._usage(index), session_boost(index, servers)
        if usage is None or in_session is None:
            return in_session if usage is None else usage
        return usage + in_session

    def _usage(self, index: LexicalIndex) -> Scores | None:
        known, boosts = self._known, self._boosts
        if not known:
            return None
        if boosts is None or boosts[0] is not index or boosts[1] is not known:
            self._boosts = boosts = index, known, _strengths(index, known, self._now())
        return boosts[2]

    async def save(self) -> bool:
        """Writes the new counts; if that fails, they are written with the next ones."""
        if not self._unsaved:
            return True
        unsaved, self._unsaved = self._unsaved, {}
        now, totals = self._now(), dict[ToolName, Use]()

        def total(name: ToolName, stored: Entry | None) -> Entry:
            totals[name] = (Use.of(stored) if stored else _NEVER).more(unsaved[name], now)
            return totals[name].entry

        is_stored = await self._store.update({name: partial(total, name) for name in unsaved})
        if not self._is_on:
            return True
        if is_stored:  # the totals include counts that other processes on the same database added
            self._replace({name: use.more(self._unsaved.get(name, 0.0), now) for name, use in totals.items()})
        else:
            for name, uses in unsaved.items():
                self._unsaved[name] = self._unsaved.get(name, 0.0) + uses
        return is_stored

    def _replace(self, totals: dict[ToolName, Use]) -> None:
        known = {name: use for name, use in self._known.items() if name not in totals} | totals
        self._known = dict(islice(known.items(), max(0, len(known) - MAX_TOOLS), None))


def session_boost(index: LexicalIndex, servers: Set[str]) -> Scores | None:
    """1 for the tools of `servers`, 0 for all others; None if there are none."""
    keys = {f"servers/{name}" for name in servers}
    strengths: Scores = np.array([it.collection.key in keys for it in index.segments], np.float32)
    return strengths[index.segment_of] if strengths.any() else None


def _strengths(index: LexicalIndex, known: dict[ToolName, Use], now: float) -> Scores | None:
    """The usage of each thing of an index, 0 to 1, logarithmically; None if none is used."""
    strengths: Scores = np.zeros(len(index.things), np.float32)
    servers = {name.server for name in known}
    for number, thing in enumerate(index.things):
        if isinstance(thing, Tool) and thing.server in servers:
            uses = known.get(ToolName(thing.server, thing.name), _NEVER).as_of(now)
            strengths[number] = min(1.0, math.log1p(uses / _FEW_USES) / math.log1p(_MANY_USES / _FEW_USES))
    return strengths if strengths.any() else None


def with_usage_boost(order: NDArray[np.intp], scores: Scores, boosts: Scores, limit: int) -> NDArray[np.intp]:
    """The order by scores with up to `MAX_BOOSTED` results moved up; none rises past one with more than its boosted
    score."""
    head = order[: limit + _BEYOND_LIMIT]
    fit = scores[head]
    raised = fit * (1 + _MAX_BOOST * boosts[head])
    most = np.argsort(-np.where(raised > fit, raised, 0), kind="stable")[:MAX_BOOSTED]
    fit = fit.copy()
    fit[most] = raised[most]
    return np.concatenate([head[np.argsort(-fit, kind="stable")], order[len(head) :]])
