"""Holds what each session has read: the tools whose answers its programs have received, and those behind /workspace.

- A call counts once it is answered, whatever the answer is, since an error carries data too. So a call that the program
  sent before cannot hold that data.
- Sessions that end with their request can't be told apart: all of them, of one principal, count as one, for a day.
- A program that changes /workspace passes on all that its session has read to every session of its principal. While it
  runs, in this product or in another one on the same state folder, the host can't see what it writes, so others at the
  same time count as readers of it. That ends when a product starts, no other one runs, and nothing in /workspace is as
  new as that program. What only the product's own log of the session passes on counts where rules depend on it.
- A session that resumes or applies a program of another one takes over all that the other one has read: the program may
  hold it, and hand it over by its text, its clock or its result.
- A person may forget them, with `codemode-server sources forget`.

Committed before a call is sent, so that a killed product forgets nothing, and read from the database when a call is
decided, so that a product knows what programs of another one may have written by then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from codemode_server.calls.events import CallEnded, CallEvent, CallSending
from codemode_server.calls.targets import CallTarget, title_of
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import Capture
from codemode_server.domain.errors import JournalUnavailable, MetaToolError
from codemode_server.domain.flows import (
    EPHEMERAL,
    SESSION_LOGS,
    SHARED,
    WORKSPACE,
    Holder,
    RunningProgram,
    Source,
    SourceSet,
    holder_in,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.data_flow.labels import ToolLabels
from codemode_server.support.text import first_lines

if TYPE_CHECKING:
    from codemode_server.features.data_flow.source_store import SourceStore

EPHEMERAL_SECONDS = 86_400.0
_RENEWED_SECONDS = 3_600.0
CLOCK_SECONDS = 0.02
"""File systems have a coarser clock than the host, which may be behind by this much."""
_MAX_SESSIONS = 2_000
"""Sessions of one run; what the oldest beyond them has read counts for all sessions of its principal."""
_MAX_LOADED = 1_000
"""Sessions of earlier runs, whose executions may be resumed."""
_MAX_SHOWN = 20


class ReadSources:
    """Used on the event loop, but for `load`."""

    def __init__(self, config: LiveConfig, store: SourceStore, clock: Callable[[], float] = time.time) -> None:
        self.labels = ToolLabels(config)
        self._config = config
        self._store = store
        self._clock = clock
        self._read: dict[Holder, SourceSet] = {}
        self._stored: dict[Holder, SourceSet] = {}
        self._programs: dict[ExecutionId, RunningProgram] = {}
        self._sent: dict[tuple[ExecutionId, int], Source] = {}
        """What each call that is on its way reads."""
        self._shared: dict[ExecutionId, tuple[Holder, set[Holder]]] = {}
        """Live executions with the session that started each and those that get its result."""

    def load(self, newest_change: Callable[[Principal], float]) -> None:
        """Take over what is stored; `newest_change` tells when something in a principal's workspace was last changed.
        Raises `JournalUnavailable` if the store can't be used."""
        stored, left = self._store.load(), self._store.left_programs()
        shared = [it for it in stored if it[1] in (*SHARED, EPHEMERAL)]
        sessions = [it for it in stored if it not in shared]
        for holder in (*shared, *sessions[-_MAX_LOADED:]):
            self._of_stored(holder).add_all(stored[holder])
            self._add(holder, stored[holder])
        for program in left.programs:
            self._pass_on(program)
        self._store.settle(left.programs)
        for holder in [it for it in self._read if it[1] in SHARED and left.is_alone]:
            newest = newest_change(Principal(holder[0])) + CLOCK_SECONDS
            gone = [it for it in self._read[holder] if it.at > newest]
            self._read[holder] = SourceSet(it for it in self._read[holder] if it.at <= newest)
            self._stored[holder] = SourceSet(self._read[holder])
            self._store.remove(holder, gone)

    def take_event(self, event: CallEvent) -> None:
        """A subscriber of calls, which gets the end of a call before the program gets the answer."""
        match event:
            case CallSending(calls, call, target):
                self._forget()
                source = self._sent[calls.execution_id, call.seq] = self._source(target)
                self._store_early(_holder(calls.caller), source)
            case CallEnded(decision=Capture()):
                pass  # nothing was read
            case CallEnded(calls, call, target, reply=reply):
                sent = self._sent.pop((calls.execution_id, call.seq), None)
                if sent is not None or reply is not None:
                    self._forget()
                    answered = self._source(target) if sent is None else replace(sent, at=self._clock())
                    self._add(_holder(calls.caller), [answered])
            case _:
                pass

    def take_over(self, context: Caller, sources: Sequence[Source]) -> None:
        """A session gets what another one wrote that had read these sources, other than in /workspace: a skill."""
        if sources:
            now = self._clock()
            self._add(_holder(context), [replace(it, at=now) for it in sources])

    async def take_over_session(self, context: Caller, session: Session, *, has_read: bool) -> None:
        """A session gets an ended program of another one, which `has_read` something. Raises `MetaToolError` if rules
        depend on what the other session has read, and that is not known any more; `JournalUnavailable` if the store
        can't be used."""
        other = _holder_of(context.principal, session)
        if other == _holder(context):
            return
        self._forget()
        found = SourceSet(self._read.get(other, ()))
        found.add_all(await self._store.of_session(other))
        if has_read and not found and self.has_rules:
            raise MetaToolError(
                "that program ran in another session, and what that session has read, which decides where data may go "
                "(permissions.flows), is not known any more; run it anew: execute_code(code=…)"
            )
        self.take_over(context, [*found])

    def share(self, execution_id: ExecutionId, owner: Caller, context: Caller) -> None:
        """A session gets the result of an execution of another session, `owner`: from now until `end_sharing` it also
        gets what that session reads."""
        own, other = _holder(context), _holder(owner)
        if own != other:
            self._forget()
            self._shared.setdefault(execution_id, (other, set()))[1].add(own)
            self.take_over(context, [*self._read.get(other, ())])

    def end_sharing(self, execution_id: ExecutionId) -> None:
        self._shared.pop(execution_id, None)

    def of(self, context: Caller) -> SourceSet:
        """Sources that the session of a request has read or may have read, its own first. Raises `JournalUnavailable`
        if the store can't be used, so it is unknown what other products' programs have written."""
        self._forget()
        own, principal = _holder(context), context.principal.principal_id
        found = SourceSet(self._valid(own))
        for name in SHARED if self.has_rules else (WORKSPACE,):
            found.add_all(self._read.get((principal, name), ()))
        for other in {it.holder for it in self._programs.values()} - {own}:
            if other[0] == principal:
                found.add_all(replace(it, is_in_workspace=True) for it in self._valid(other))
        in_flight = {it.key for it in self._of_stored(own)}
        for holder, source in self._store.shared_with(own):
            if holder[1] == SESSION_LOGS and not self.has_rules:
                continue
            if source.at >= self._since(holder) and not (holder == own and source.key in in_flight):
                found.add(replace(source, is_in_workspace=holder != own))
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
        """A program begins, which sees /workspace. Raises `JournalUnavailable` if the store can't be used."""
        self._forget()
        holder = _holder(context)
        self._programs[execution_id] = RunningProgram(execution_id, holder, self._clock())
        if holder[1] == EPHEMERAL:  # other products have such sessions too
            self._add(holder, [it for other, it in self._store.shared_with(holder) if other == holder])

    def may_pass_on(self, execution_id: ExecutionId) -> bool:
        """True if the session of a program has read anything that could be in /workspace now."""
        program = self._programs.get(execution_id)
        return program is not None and bool(self._read.get(program.holder))

    def end(self, execution_id: ExecutionId, newest_change: float, *, is_logged: bool = False) -> None:
        """A program has ended; something in /workspace was last changed then, besides logs if it `is_logged`."""
        self._forget()
        program = self._programs.pop(execution_id, None)
        if program is not None and newest_change >= program.began_at - CLOCK_SECONDS:
            self._pass_on(program)
        elif program is not None and is_logged:
            self._pass_on(program, SESSION_LOGS)

    def _forget(self) -> None:
        for holder in self._store.forgotten.take():
            stored = self._stored.pop(holder, SourceSet())
            self._read.pop(holder, None)
            self._store.remove(holder, [*stored])

    def _pass_on(self, program: RunningProgram, by: str = WORKSPACE) -> None:
        passed = [replace(it, at=program.began_at, is_in_workspace=True) for it in self._valid(program.holder)]
        self._add((program.holder[0], by), passed)

    def _store_early(self, holder: Holder, source: Source) -> None:
        """Queues a source, so that it is written before the answer of the call."""
        if (added := self._of_stored(holder).add(source)) is not None:
            self._store.add(holder, [added])

    def _add(self, holder: Holder, sources: Sequence[Source]) -> None:
        if holder not in self._read:
            self._drop_oldest()
            self._read[holder] = _new_set(holder)
        if added := self._read[holder].add_all(sources):
            if new := self._of_stored(holder).add_all(added):
                self._store.add(holder, new)
            others = [others for owner, others in self._shared.values() if owner == holder]
            for other in set[Holder]().union(*others):
                self._add(other, added)

    def _drop_oldest(self) -> None:
        busy = {it.holder for it in self._programs.values()}
        idle = (it for it in self._read if it[1] not in (*SHARED, EPHEMERAL) and it not in busy)
        if len(self._read) >= _MAX_SESSIONS and (oldest := next(idle, None)) is not None:
            self._stored.pop(oldest, None)
            passed = [replace(it, is_in_workspace=True) for it in self._read.pop(oldest)]
            self._add((oldest[0], WORKSPACE), passed)

    def _of_stored(self, holder: Holder) -> SourceSet:
        if (stored := self._stored.get(holder)) is None:
            stored = self._stored[holder] = _new_set(holder)
        return stored

    def _valid(self, holder: Holder) -> Iterator[Source]:
        since = self._since(holder)
        return (it for it in self._read.get(holder, ()) if it.at >= since)

    def _since(self, holder: Holder) -> float:
        return self._clock() - EPHEMERAL_SECONDS if holder[1] == EPHEMERAL else -math.inf

    def _source(self, target: CallTarget) -> Source:
        labels = self.labels.of(target)
        return Source(target.server.raw_name, target.raw_name, title_of(target), labels, self._clock())


def described(source: Source) -> str:
    """A source in reasons and questions."""
    return f"{source.title} by way of /workspace" if source.is_in_workspace else source.title


def _holder(context: Caller) -> Holder:
    return _holder_of(context.principal, context.session)


def _holder_of(principal: Principal, session: Session) -> Holder:
    return principal.principal_id, holder_in(session)


def _new_set(holder: Holder) -> SourceSet:
    return SourceSet(renewed_after=_RENEWED_SECONDS if holder[1] == EPHEMERAL else math.inf)
