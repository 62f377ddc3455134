"""The skills that programs import and save, and what becomes of their proposals when they end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import anyio.to_thread

from codemode_server.config.live import Caller
from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.flows import Source
from codemode_server.domain.principals import Owner
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.preflight.preflight import CheckContext, Preflight
from codemode_server.features.skills.library import SkillLibrary
from codemode_server.features.skills.rules import check_name, check_text, facts_of
from codemode_server.features.skills.store import SavedSkill
from codemode_server.sandbox.backend_selection import Sandbox

_MAX_WARNINGS = 3


class ReadSources(Protocol):
    """What sessions have read."""

    async def of(self, caller: Caller, /) -> Iterable[Source]: ...
    async def take_over(self, caller: Caller, sources: Sequence[Source], /) -> None:
        """A session gets what was made from these sources."""


@dataclass(frozen=True, slots=True)
class ProgramSkills(ExecutionLayer):
    """Serves the programs of all executions; settles what each has saved once it is known how it ended."""

    library: SkillLibrary
    preflight: Preflight
    sources: ReadSources
    sandbox: Sandbox

    def why_missing(self, owner: Owner, name: str) -> str:
        return self.library.why_missing(owner, name)

    async def load(self, execution: Execution, path: tuple[str, ...]) -> dict[str, Any]:
        """The answer to an import of `skills.<path>`. Raises `MetaToolError` if there is no such module."""
        answer, found = await anyio.to_thread.run_sync(self.library.load, execution.owner, path)
        if found is not None:
            await self.sources.take_over(execution.caller, found.sources)
        return answer

    async def save(self, execution: Execution, name: str, text: str) -> str:
        """Store a skill as a proposal of this execution; gives a line for the model. Raises `MetaToolError` if it may
        not be saved, with what is wrong."""
        if execution.is_replay:
            return f"skills.{name} was not saved: this is a replay"
        if execution.is_dry_run:
            line = f"skills.{name} was not saved: this is a dry run"
            execution.calls.messages.append(line)
            return line
        text = text.replace("\r\n", "\n").rstrip() + "\n"
        check_name(name)
        importable = (await self.sandbox.ready()).importable
        await anyio.to_thread.run_sync(check_text, name, text, importable)
        context = CheckContext(why_no_skill=partial(self.library.why_missing, execution.owner), is_module=True)
        checked = await self.preflight.check(text, context)
        if checked.errors:
            raise MetaToolError(checked.message.replace("not run:", f"skills/{name}.py was not saved:", 1))
        sources = tuple(await self.sources.of(execution.caller))
        try:
            line = await anyio.to_thread.run_sync(self._propose, execution, name, text, sources)
        except OSError as error:
            raise MetaToolError(f"skills/{name}.py can't be written: {error.strerror}") from error
        warnings = checked.warning_lines()[:_MAX_WARNINGS]
        execution.own.setdefault(ProgramSkills, {})[name] = line
        return "\n".join([line, *(f"warning: {warning}" for warning in warnings)])

    def _propose(self, execution: Execution, name: str, text: str, sources: tuple[Source, ...]) -> str:
        owner, store = execution.owner, self.library.store(execution.owner.principal)
        if name.casefold() in self.library.project_names():
            raise MetaToolError(f"skills.{name} is the user's own skill; save under another name")
        saved = [*store.in_use(), *store.proposals()]
        other = next((it.name for it in saved if it.name != name and it.name.casefold() == name.casefold()), None)
        if other is not None:
            raise MetaToolError(f"there is a skill {other!r}, which some file systems don't tell from {name!r}")
        now = store.read_in_use(name)
        if now is not None and now.text == text and not now.is_changed and now.accepted_at is not None:
            return f"skills.{name} has this text already, and every session can import it"
        facts = facts_of(name, text)
        session_id = owner.session.session_id
        store.propose(SavedSkill(name, text, execution.execution_id, session_id, time.time(), facts.tools, sources))
        import_line = f"from skills.{name} import {facts.function}"
        if self._is_automatic(now):
            return f"skills.{name} is saved once this program succeeds: {import_line}"
        new = "a new version of the accepted skill, proposed" if now is not None else "proposed"
        only = "" if owner.session.is_ephemeral else f"this session can import it ({import_line}), "
        return f"skills.{name} is {new}: {only}others once the user accepts it (codemode-server skills accept {name})"

    @asynccontextmanager
    async def around(self, execution: Execution) -> AsyncIterator[None]:
        """At the end, keep the proposals of an execution that succeeded, and delete those of one that did not; not
        while it waits."""
        yield
        saved: dict[str, str] = execution.own.get(ProgramSkills, {})
        if not saved or execution.status is ExecutionStatus.WAITING:
            return
        is_done = execution.status is ExecutionStatus.SUCCEEDED
        try:
            await anyio.to_thread.run_sync(self._put_in_use if is_done else self._discard, execution)
        except (OSError, CodemodeError) as error:
            execution.calls.messages.append(f"what was saved under /skills could not be settled: {error}")
            return
        lines = [line for line in saved.values() if line not in execution.outcome.stdout]
        not_saved = f"not saved, since the program did not succeed: {', '.join(saved)}"
        execution.calls.messages += lines if is_done else [not_saved]

    def _put_in_use(self, execution: Execution) -> None:
        store = self.library.store(execution.owner.principal)
        for skill in store.proposals_of(execution.execution_id):
            store.settle(skill)
            now = store.read_in_use(skill.name)
            if self._is_automatic(now):
                store.put_in_use(replace(skill, is_proposal=False), shown=now)

    def _discard(self, execution: Execution) -> None:
        store = self.library.store(execution.owner.principal)
        for skill in store.proposals_of(execution.execution_id):
            store.delete_proposal(skill)

    def _is_automatic(self, now: SavedSkill | None) -> bool:
        """True if a new version is used without review: never in place of one that a person accepted."""
        return self.library.is_automatic and (now is None or (now.accepted_at is None and not now.is_changed))
