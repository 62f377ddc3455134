"""Holds what each session has read: the tools whose answers its programs have received, and those behind /workspace.

- A call counts once it is sent, whatever the answer is, since an error carries data too.
- Sessions that end with their request can't be told apart: all of them, of one principal, count as one, for a day.
- A program that changes /workspace passes on all that its session has read to every session of its principal. While it
  runs, the host can't see what it writes, so others at the same time count as readers of it. That ends when a product
  starts and nothing in /workspace is as new as that program.
- A session that resumes or applies a program of another one takes over all that the other one has read: the program may
  hold it, and hand it over by its text, its clock or its result.
- A person may forget them, with `codemode-server sources forget`.

Committed before a call is sent, so that a killed product forgets nothing, and read from the database when a call is
decided, so that a product knows what programs of another one have written by then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from codemode_server.calls.events import CallEnded, CallEvent, CallSending
from codemode_server.calls.targets import CallTarget, title_of
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import Recorded
from codemode_server.domain.errors import JournalUnavailable, MetaToolError
from codemode_server.domain.flows import WORKSPACE, Holder, Source, SourceSet
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.data_flow.labels import ToolLabels
from codemode_server.support.text import first_lines

if TYPE_CHECKING:
    from codemode_server.features.data_flow.sqlite_sources import SqliteSources

EPHEMERAL = "ephemeral"
"""The holder for all sessions that end with their request."""
EPHEMERAL_SECONDS = 86_400.0
_RENEWED_SECONDS = 3_600.0
CLOCK_SECONDS = 0.02
"""File systems have a coarser clock than the host, which may be behind by this much."""
_MAX_SESSIONS = 2_000
"""Sessions in memory; the sources of others are in the database alone."""
_MAX_SHOWN = 20


class ReadSources:
    """Used on the event loop, but for `load`."""

    def __init__(self, config: LiveConfig, store: SqliteSources, clock: Callable[[], float] = time.time) -> None:
        self.labels = ToolLabels(config)
        self._config = config
        self._store = store
        self._clock = clock
        self._read: dict[Holder, SourceSet] = {}
        """What was read in this run; it may not be in the database yet."""
        self._programs: dict[ExecutionId, tuple[Holder, float]] = {}
        """The running programs, with when they began."""
        self._shared: dict[ExecutionId, tuple[Holder, set[Holder]]] = {}
        """Live executions with the session that started each and those that get its result."""

    def load(self, newest_change: Callable[[Principal], float]) -> None:
        """Forget what is not in a principal's workspace any more; `newest_change` tells when something in it was last
        changed. Raises `JournalUnavailable` if the store can't be used."""
        for holder, sources in self._store.load().items():
            if holder[1] == WORKSPACE:
                newest = newest_change(Principal(holder[0])) + CLOCK_SECONDS
                self._store.remove(holder, [it for it in sources if it.at > newest])

    def take_event(self, event: CallEvent) -> None:
        """A subscriber of calls, which gets the end of a call before the program gets the answer."""
        match event:
            case CallSending(calls, _, target) | CallEnded(calls, _, target, decision=Recorded()):
                self._add(_holder(calls.caller), [self._source(target)])
            case _:
                pass

    def take_over(self, context: Caller, sources: Sequence[Source]) -> None:
        """A session gets what another one wrote that had read these sources, other than in /workspace: a skill."""
        now = self._clock()
        self._add(_holder(context), [replace(it, at=now) for it in sources])

    def take_over_session(self, context: Caller, session: Session, *, has_read: bool) -> None:
        """A session gets an ended program of another one, which `has_read` something. Raises `MetaToolError` if rules
        depend on what the other session has read, and that is not known any more; `JournalUnavailable` if the store
        can't be used."""
        other = _holder_of(context.principal, session)
        if other == _holder(context):
            return
        found = self._of(other)
        if has_read and not found and self.has_rules:
            raise MetaToolError(
                "that program ran in another session, and what that session has read, which decides where data may go "
                "(permissions.flows), is not known any more; run it anew: execute_code(code=…)"
            )
        self.take_over(context, [*found])

    def share(self, execution_id: ExecutionId, owner: Caller, context: Caller) -> None:
        """A session gets the result of an execution of another session, `owner`: now it gets all that this has read,
        and at `end_sharing` what it has read until then."""
        own, other = _holder(context), _holder(owner)
        if own != other:
            self._shared.setdefault(execution_id, (other, set()))[1].add(own)
            self._add(own, self._read.get(other, ()))

    def end_sharing(self, execution_id: ExecutionId) -> None:
        owner, heirs = self._shared.pop(execution_id, (None, ()))
        for heir in heirs:
            self._add(heir, self._read.get(owner, ()) if owner else ())

    def of(self, context: Caller) -> SourceSet:
        """Sources that the session of a request has read or may have read, its own first. Raises `JournalUnavailable`
        if the store can't be used, so it is unknown what other products' programs have written."""
        own, principal = _holder(context), context.principal.principal_id
        found = self._of(own)
        found.add_all(self._of((principal, WORKSPACE)))
        for other in {holder for holder, _ in self._programs.values()} - {own}:
            if other[0] == principal:
                found.add_all(replace(it, is_in_workspace=True) for it in self._of(other))
        return found

    def labelled(self, context: Caller) -> tuple[str, ...]:
        """The sources that have labels, a line each, for the question to a person."""
        labels = [(it, self.labels.of_source(it)) for it in self.of(context)]
        lines = [f"{described(it)}: {', '.join(sorted(its))}" for it, its in labels if its]
        return tuple(first_lines(lines, _MAX_SHOWN, "and {:,} more"))

    @property
    def has_rules(self) -> bool:
        """True if any rule depends on what a session has read."""
        permissions = self._config.settings.permissions
        return bool(permissions.flows.rules) or permissions.public_sinks != "allow"

    def is_restricted(self, context: Caller) -> bool:
        """True if the session's sources, or those in /workspace, may restrict its calls, or are unknown: their data
        must not be stored for other sessions."""
        if not self.has_rules:
            return False
        try:
            read = self.of(context)
        except JournalUnavailable:
            return True
        return any(self._config.settings.permissions.flows.rules or self.labels.of_source(it) for it in read)

    def begin(self, execution_id: ExecutionId, context: Caller) -> None:
        """A program begins, which sees /workspace."""
        self._programs[execution_id] = _holder(context), self._clock()

    def may_pass_on(self, execution_id: ExecutionId) -> bool:
        """True if the session of a program has read anything that could be in /workspace now."""
        return execution_id in self._programs and bool(self._known(self._programs[execution_id][0]))

    def end(self, execution_id: ExecutionId, newest_change: float) -> None:
        """A program has ended; something in /workspace was last changed then."""
        if (program := self._programs.pop(execution_id, None)) is None:
            return
        holder, began_at = program
        if newest_change >= began_at - CLOCK_SECONDS:
            passed = [replace(it, at=began_at, is_in_workspace=True) for it in self._known(holder)]
            self._add((holder[0], WORKSPACE), passed)

    def _of(self, holder: Holder) -> SourceSet:
        self._forget()
        since = self._clock() - EPHEMERAL_SECONDS if holder[1] == EPHEMERAL else -math.inf
        known = (*self._read.get(holder, ()), *self._store.of(holder))
        return SourceSet(it for it in known if it.at >= since)

    def _known(self, holder: Holder) -> SourceSet:
        """The same, as far as the store can be used."""
        try:
            return self._of(holder)
        except JournalUnavailable:
            return SourceSet(self._read.get(holder, ()))

    def _forget(self) -> None:
        """Forget what the person has forgotten; what this product has queued of it may be in the database again."""
        for holder in self._store.forgotten.take():
            self._store.remove(holder, [*self._read.pop(holder, ())])

    def _add(self, holder: Holder, sources: Iterable[Source]) -> None:
        self._forget()
        if (read := self._read.get(holder)) is None:
            if len(self._read) >= _MAX_SESSIONS:
                del self._read[next(iter(self._read))]
            renewed_after = _RENEWED_SECONDS if holder[1] == EPHEMERAL else math.inf
            read = self._read[holder] = SourceSet(renewed_after=renewed_after)
        if added := read.add_all(sources):
            self._store.add(holder, added)

    def _source(self, target: CallTarget) -> Source:
        return Source(target.server.raw_name, target.raw_name, title_of(target), self.labels.of(target), self._clock())


def described(source: Source) -> str:
    """A source in reasons and questions."""
    return f"{source.title} by way of /workspace" if source.is_in_workspace else source.title


def _holder(context: Caller) -> Holder:
    return _holder_of(context.principal, context.session)


def _holder_of(principal: Principal, session: Session) -> Holder:
    return principal.principal_id, EPHEMERAL if session.is_ephemeral else session.session_id
