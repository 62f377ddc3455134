"""Runs one execution: waits for its turn, runs it, and records its end.

Nothing that a program does is raised from here: every way in which it ends becomes its status and its outcome.
"""

from __future__ import annotations

import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError, JournalUnavailable, LimitExceeded, SandboxFailed
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.principals import Owner
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import CLEAN_UP_SECONDS, ExecutionLayers
from codemode_server.executions.outcome_artifacts import store_outcome
from codemode_server.executions.recording import ExecutionRecorder
from codemode_server.executions.scheduling import Turns
from codemode_server.sandbox.contract import Ending, Outcome, ProgramError

logger = logging.getLogger(__name__)

_STORE_SECONDS = 5.0
"""How long the results of a cancelled program may take to be stored."""
_AFTER_ANSWER_SECONDS = 0.02
"""How long after the end of a program that is done which can wait for the answer to its host; nobody looks whether the
answer has been sent."""
_INTERNAL_ERROR = SandboxFailed("internal error; the log has the details")
_NO_CLEAN_UP = (
    "codemode-server failed to clean up after the program (its log has the details); the program itself ended as "
    "reported, so do not run it again for this"
)
_STATUS = {
    Ending.RETURNED: ExecutionStatus.SUCCEEDED,
    Ending.RAISED: ExecutionStatus.FAILED,
    Ending.LIMITED: ExecutionStatus.LIMITED,
    Ending.DIED: ExecutionStatus.CRASHED,
}


class Runs(Protocol):
    """Runs executions of one kind."""

    async def prepare(self, execution: Execution) -> Outcome | None:
        """Before its start is recorded; the outcome of one that is not to run."""

    async def run(self, execution: Execution) -> Outcome: ...


@dataclass(slots=True)
class _Answered:
    """Executions of one session that have ended, and for which what follows is still to be done."""

    executions: list[Execution] = field(default_factory=list)
    lock: anyio.Lock = field(default_factory=anyio.Lock)


@dataclass(slots=True, kw_only=True)
class ExecutionRunner:
    """Runs `limits.programs` at once; the others wait for their turn."""

    programs: Runs
    direct_calls: Runs
    layers: ExecutionLayers
    artifacts: ArtifactStore
    recorder: ExecutionRecorder
    config: LiveConfig
    turns: Turns = field(default_factory=Turns)
    _answered: dict[Owner, _Answered] = field(default_factory=dict)

    async def run(self, execution: Execution) -> None:
        """One execution from its turn to what is done after its end. Only the end of the product is raised."""
        started = time.perf_counter()
        runs = self.direct_calls if execution.direct_call else self.programs
        layers = AsyncExitStack()
        layers.push_async_callback(execution.results.drop)  # last
        try:
            with execution.scope:
                await self.layers.around(execution, layers)
                async with self.turns.turn(execution.owner, self.config.settings.limits, execution.wait_in_queue):
                    execution.status = ExecutionStatus.RUNNING
                    try:
                        await self._catch_up(execution.owner)
                        blocked = await runs.prepare(execution)
                        self.recorder.begin(execution)  # the program is checked meanwhile
                        execution.outcome = blocked or await runs.run(execution)
                        await execution.wait_recorded()
                        execution.status = _STATUS[execution.outcome.ending]
                        await store_outcome(execution, self.artifacts)
                    finally:
                        self._go_on(execution)
            if execution.scope.cancelled_caught:
                execution.status = ExecutionStatus.WAITING if execution.is_given_up else ExecutionStatus.CANCELLED
                with anyio.CancelScope(shield=True), anyio.move_on_after(_STORE_SECONDS):
                    await store_outcome(execution, self.artifacts)
        except CodemodeError as error:
            execution.status, execution.outcome = _not_run(error)
        except anyio.get_cancelled_exc_class():
            is_suspended = execution.is_detached and execution.status is ExecutionStatus.WAITING
            execution.status = ExecutionStatus.WAITING if is_suspended else ExecutionStatus.CANCELLED
            raise
        except Exception:  # an internal error ends this execution, not the others
            logger.exception("execution %s failed on our side", execution.execution_id)
            execution.status, execution.outcome = _not_run(_INTERNAL_ERROR)
        finally:
            execution.milliseconds = (time.perf_counter() - started) * 1e3
            with anyio.CancelScope(shield=True):
                await self._settle(execution, layers)
            execution.done.set()
            execution.changed.notify()
            self._answered.setdefault(execution.owner, _Answered()).executions.append(execution)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(_AFTER_ANSWER_SECONDS)
            await self._catch_up(execution.owner)

    async def _settle(self, execution: Execution, layers: AsyncExitStack) -> None:
        """Record the end, then let the layers clean up. Raises nothing, as that would end the programs of others. The
        outcome stays when a clean-up fails: it is recorded, and a model would run a failed program again."""
        try:
            await self.recorder.end(execution)
        except JournalUnavailable as unavailable:
            execution.status, execution.outcome = _not_run(unavailable)
        except Exception:
            logger.exception("the end of execution %s could not be recorded", execution.execution_id)
            execution.status, execution.outcome = _not_run(_INTERNAL_ERROR)
        try:
            with anyio.fail_after(CLEAN_UP_SECONDS):
                await layers.aclose()
        except Exception:
            logger.exception("the clean-up after execution %s failed", execution.execution_id)
            execution.calls.messages.append(_NO_CLEAN_UP)

    async def _catch_up(self, owner: Owner) -> None:
        """Do what comes after the answers of a session, which its next program may depend on. Not cancelled. Other
        sessions do not wait for it."""
        if (answered := self._answered.get(owner)) is None:
            return
        with anyio.CancelScope(shield=True):
            async with answered.lock:
                for execution in answered.executions:  # which may grow meanwhile
                    await self.layers.after(execution)
                answered.executions.clear()
                if self._answered.get(owner) is answered:
                    del self._answered[owner]

    def note_status(self, execution: Execution) -> None:
        """Others may run while an execution waits for a person."""
        is_waiting = execution.status is ExecutionStatus.WAITING
        if is_waiting and not execution.is_suspended:
            execution.is_suspended = self.turns.suspend(execution.owner, self.config.settings.limits)
        elif not is_waiting:
            self._go_on(execution)

    def _go_on(self, execution: Execution) -> None:
        if execution.is_suspended:
            execution.is_suspended = False
            self.turns.go_on(execution.owner)


def _not_run(error: CodemodeError) -> tuple[ExecutionStatus, Outcome]:
    """The status and outcome of an execution that the host could not run or record."""
    setting = error.setting if isinstance(error, LimitExceeded) else None
    ending = Ending.LIMITED if setting else Ending.DIED
    # A stage may have an error class of its own; the model gets the documented base class.
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == CodemodeError.__module__)
    return _STATUS[ending], Outcome(ending, error=ProgramError(kind.__name__, str(error), setting=setting))
