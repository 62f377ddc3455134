"""A team's everyday tools come first among near-equals: what was called is remembered, and is a prior of the ranking.

An execution counts once for each tool that answered it, however often; more if a search of the same session had given
the tool a little before. What a query said is not remembered: words of queries were tried as a second part, and made
the ranking worse for a team that asks for something new (`benchmarks/SEARCH.md`).

A habit adds to how well a thing fits, and in proportion to that: what has nothing to do with a query stays out. Of each
answer it lifts a few things only, so nothing falls further than that.
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
"""Tools remembered; of more, those that were not called for the longest are forgotten."""
MAX_LIFTED = 3
"""Things that a habit brings up in one answer; so many places something may fall."""
_LIFT = 0.1
"""What the strongest habit adds, as a share of how well the thing fits."""
_REACH = 30
"""Places below the last one shown from which a habit may bring something up."""
_FEW_USES, _MANY_USES = 3.0, 20.0
"""Below the one a habit grows slowly, from the other on no more."""

_FOUND, _NOT_FOUND = 1.0, 0.5
"""What a use counts that a search of the session had led to, and one that the model came to otherwise."""
_MAX_AT_ONCE = 50
"""Tools of one execution that count; a program that walks through hundreds shows no habit."""
_FOUND_SECONDS = 1_800.0
_MAX_SESSIONS = 64
_MAX_FOUND = 300
"""Tools remembered as found, a session."""
_PRIOR_SECONDS = 3_600.0

_NEVER = Use(0.0, 0.0)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class UsageStats:
    """Knows how much each tool is used in this installation."""

    def __init__(
        self, kept: ToolStore[ToolName, Use], config: LiveConfig | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        """`kept` is where it stays between runs. Without `search.habits` nothing is remembered."""
        self._kept = kept
        self._config = config or LiveConfig()
        self._now = now
        self._is_loaded = False
        self._known: dict[ToolName, Use] = {}
        """Never changed, only replaced: searches in other threads read it."""
        self._unsaved: dict[ToolName, float] = {}
        self._found: dict[str, dict[ToolName, float]] = {}
        """By session, until when each tool counts as found."""
        self._prior: _Prior | None = None

    @property
    def _is_on(self) -> bool:
        return self._config.settings.search.habits

    def follow_config(self) -> None:
        """Forget everything once `search.habits` is off."""
        if not self._is_on and (self._known or self._found):
            self._known, self._unsaved, self._found = {}, {}, {}
            self._kept.forget()

    def load(self) -> None:
        """Take in what is kept. Later calls do nothing."""
        if self._is_loaded:
            return
        self._is_loaded = True
        if self._is_on:
            self._known = self._kept.load()
        else:
            self._kept.forget()

    def found(self, session: Session, things: Iterable[Findable]) -> None:
        """A search of the session gave these."""
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
        """An execution of the session had answers from these; each counts once."""
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
            self._know(totals)
            self._save(now)

    def prior(self, index: LexicalIndex) -> Scores | None:
        """How much each thing of the index is used, 0…1; None if none of them is. Safe in any thread."""
        known, now, prior = self._known, self._now(), self._prior
        if not known:
            return None
        if prior is None or not prior.is_of(index, known, now):
            self._prior = prior = _Prior(index, known, now)
        return prior.strengths

    def _save(self, now: float) -> None:
        """Write what was used; where that is not possible, with what is used next."""
        totals: dict[ToolName, Use] = {}

        def total(name: ToolName, known: Use | None) -> Use:
            totals[name] = (known or _NEVER).more(self._unsaved[name], now)
            return totals[name]

        if self._kept.update({name: partial(total, name) for name in self._unsaved}):
            self._unsaved = {}
            self._know(totals)  # with what other products on the same database added

    def _know(self, totals: dict[ToolName, Use]) -> None:
        others = {name: use for name, use in self._known.items() if name not in totals}
        self._known = _newest(others | totals, MAX_TOOLS)


class _Prior:
    """How much each thing of one index is used, as of a time."""

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
        return of_index is index and of_known is known and 0 <= now - at < _PRIOR_SECONDS


def lifted(order: NDArray[np.intp], scores: Scores, prior: Scores, limit: int) -> NDArray[np.intp]:
    """The order by scores, best first, with a few things of the head brought up by their habits.

    Nothing falls more than `MAX_LIFTED` places, nothing rises past what fits better by more than a habit is worth.
    """
    head = order[: limit + _REACH]
    fit = scores[head]
    raised = fit * (1 + _LIFT * prior[head])
    most = np.argsort(-np.where(raised > fit, raised, 0), kind="stable")[:MAX_LIFTED]
    fit = fit.copy()
    fit[most] = raised[most]
    return np.concatenate([head[np.argsort(-fit, kind="stable")], order[len(head) :]])


def _strength(uses: float) -> float:
    """0…1: a use or two say little, and from many on more say nothing."""
    return min(1.0, math.log1p(uses / _FEW_USES) / math.log1p(_MANY_USES / _FEW_USES))


def _newest(known: dict[_Key, _Value], most: int) -> dict[_Key, _Value]:
    return known if len(known) <= most else dict(islice(known.items(), len(known) - most, None))
