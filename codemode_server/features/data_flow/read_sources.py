"""What each session has read: the tools that its programs have called, and those behind /workspace.

- A call counts from when it is sent, whatever the answer is, since an error carries data too.
- Sessions that end with their request can't be told apart: all of them, of one principal, count as one, for a day.
- A program that changes /workspace passes on all that its session has read to every session of its principal. While it
  runs, in any product, the host can't see what it writes, so others at the same time count as readers of it. That ends
  when a product starts, no other one runs, and nothing in /workspace is as new as that program. What only the product's
  own log of the session passes on counts where rules depend on it.
- A session that resumes or applies a program of another one takes over all that the other one has read: the program may
  hold it, and hand it over by its text, its clock or its result.
- A person may forget them, with `codemode-server sources forget`.

All of it is in the database, and read there when a call is decided, so it is the same in every product: what a program
gets was committed as read before. A source is written in the transaction that records its call; without rules that
depend on it, once for a session, as long as this product remembers that it has written it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from codemode_server.calls.events import CallEvent, CallSending
from codemode_server.calls.targets import CallTarget, title_of
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.errors import JournalUnavailable, MetaToolError
from codemode_server.domain.flows import (
    EPHEMERAL,
    SESSION_LOGS,
    Holder,
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

_RENEWED_SECONDS = 3_600.0
_MAX_SESSIONS = 2_000
"""Sessions of which this product remembers what it has written."""
_MAX_SHOWN = 20


class ReadSources:
    def __init__(
        self,
        config: LiveConfig,
        store: SourceStore,
        on_unwritten: Callable[[ExecutionId, Exception], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_unwritten` is called, in another thread, if what an execution reads can't be written, before anything
        else of it is: then it must not go on."""
        self.labels = ToolLabels(config)
        self._config = config
        self._store = store
        self._on_unwritten = on_unwritten
        self._clock = clock
        self._written: dict[Holder, SourceSet] = {}
        """What is known to be in the database, unless a person has forgotten it."""
        self._shared: dict[ExecutionId, tuple[Holder, set[Holder]]] = {}
        """Live executions with the session that started each and those that get its result."""

    def take_event(self, event: CallEvent) -> None:
        """A subscriber of calls."""
        if isinstance(event, CallSending):
            calls, source = event.calls, self.source(event.target)
            for holder in self._receivers(_holder(calls.caller)):
                self._post(calls.execution_id, holder, [source])

    async def take_over(self, context: Caller, sources: Sequence[Source]) -> None:
        """A session gets what another one wrote that had read these sources, other than in /workspace: a skill. Raises
        `JournalUnavailable` if the store can't be used."""
        now = self._clock()
        for holder in self._receivers(_holder(context)) if sources else ():
            if new := self._unwritten(holder, [replace(it, at=now) for it in sources]):
                await self._store.add(holder, new)
                self._note_written(holder, new)

    async def take_over_session(self, context: Caller, session: Session, *, has_read: bool) -> None:
        """A session gets an ended program of another one, which `has_read` something. Raises `MetaToolError` if rules
        depend on what the other session has read, and that is not known any more; `JournalUnavailable` if the store
        can't be used."""
        other = _holder_of(context.principal, session)
        if other == _holder(context):
            return
        found = await self._store.of_session(other)
        if has_read and not found and self.has_rules:
            raise MetaToolError(
                "that program ran in another session, and what that session has read, which decides where data may go "
                "(permissions.flows), is not known any more; run it anew: execute_code(code=…)"
            )
        await self.take_over(context, found)

    async def share(self, execution_id: ExecutionId, owner: Caller, context: Caller) -> None:
        """A session gets the result of an execution of another session, `owner`: from now until `end_sharing` it also
        gets what that session reads. Raises `JournalUnavailable` if the store can't be used."""
        own, other = _holder(context), _holder(owner)
        if own != other:
            self._shared.setdefault(execution_id, (other, set()))[1].add(own)
            await self.take_over(context, await self._store.of_session(other))

    def end_sharing(self, execution_id: ExecutionId) -> None:
        self._shared.pop(execution_id, None)

    async def of(self, context: Caller) -> SourceSet:
        """Sources that the session of a request has read or may have read, its own first. Raises `JournalUnavailable`
        if the store can't be used."""
        own = _holder(context)
        seen = [it for it in await self._store.seen_by(own) if self.has_rules or it[0][1] != SESSION_LOGS]
        seen.sort(key=lambda it: it[0] != own)
        return SourceSet(replace(source, is_in_workspace=holder != own) for holder, source in seen)

    async def labelled(self, context: Caller) -> tuple[str, ...]:
        """The sources that have labels, a line each, for the question to a person."""
        labels = [(it, self.labels.of_source(it)) for it in await self.of(context)]
        lines = [f"{described(it)}: {', '.join(sorted(its))}" for it, its in labels if its]
        return tuple(first_lines(lines, _MAX_SHOWN, "and {:,} more"))

    @property
    def has_rules(self) -> bool:
        """True if any rule depends on what a session has read."""
        permissions = self._config.settings.permissions
        return bool(permissions.flows.rules) or permissions.public_sinks != "allow"

    async def is_restricted(self, context: Caller) -> bool:
        """True if the session's sources, or those in /workspace, may restrict its calls, or are unknown: their data
        must not be stored for other sessions."""
        if not self.has_rules:
            return False
        try:
            read = await self.of(context)
        except JournalUnavailable:
            return True
        return any(self._config.settings.permissions.flows.rules or self.labels.of_source(it) for it in read)

    async def read_by(self, execution_id: ExecutionId, context: Caller) -> Sequence[Source]:
        """What the session of an execution has read itself, which could be in /workspace now."""
        holder = _holder(context)
        try:
            # Other products have such sessions too; and a person may have forgotten something since.
            if holder[1] == EPHEMERAL or self.has_rules:
                return await self._store.of_session(holder)
            if (written := self._written.get(holder)) is None:
                self._note_written(holder, found := await self._store.of_session(holder))
                return found
        except JournalUnavailable as error:
            self._on_unwritten(execution_id, error)
            return ()
        return [*written]

    def pass_on(self, execution_id: ExecutionId, context: Caller, by: str, read: Sequence[Source], at: float) -> None:
        """A program that began `at` that time has left what its session has `read` in the files of `by`, one of
        `SHARED`."""
        self._post(execution_id, (context.principal.principal_id, by), [replace(it, at=at) for it in read])

    def source(self, target: CallTarget) -> Source:
        """What a call to it reads now."""
        labels = self.labels.of(target)
        return Source(target.server.raw_name, target.raw_name, title_of(target), labels, self._clock())

    def _receivers(self, holder: Holder) -> set[Holder]:
        """Those that get what a session reads."""
        found = {holder}
        while more := {it for owner, its in self._shared.values() if owner in found for it in its} - found:
            found |= more
        return found

    def _post(self, execution_id: ExecutionId, holder: Holder, sources: Sequence[Source]) -> None:
        if new := self._unwritten(holder, sources):
            self._store.post(holder, new, partial(self._fail, execution_id))
            self._note_written(holder, new)

    def _unwritten(self, holder: Holder, sources: Iterable[Source]) -> list[Source]:
        """As they are to be written. Where rules depend on them that is all of them, each time: a person may have
        forgotten them since, in another process."""
        written = self._written.get(holder, SourceSet())
        return [written.bounded(it) for it in sources if self.has_rules or written.new(it) is not None]

    def _note_written(self, holder: Holder, sources: Iterable[Source]) -> None:
        written = self._written
        if holder not in written:
            if len(written) >= _MAX_SESSIONS:
                del written[next(iter(written))]
            written[holder] = SourceSet(renewed_after=_RENEWED_SECONDS if holder[1] == EPHEMERAL else math.inf)
        written[holder].add_all(sources)

    def _fail(self, execution_id: ExecutionId, error: Exception) -> None:
        """In another thread."""
        self._written = {}
        self._on_unwritten(execution_id, error)


def described(source: Source) -> str:
    """A source in reasons and questions."""
    return f"{source.title} by way of /workspace" if source.is_in_workspace else source.title


def _holder(context: Caller) -> Holder:
    return _holder_of(context.principal, context.session)


def _holder_of(principal: Principal, session: Session) -> Holder:
    return principal.principal_id, holder_in(session)
