"""An execution as a value: its status, its record and the records of its calls. No I/O."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from codemode_server.domain.calls import CallOutcome, CallStatus, Decision, ToolCall
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session

INTERRUPTED = "codemode-server ended in the middle of it"
"""The error of an execution whose product was killed."""

MAX_DESCRIPTION_CHARACTERS = 200


class IsolationLevel(StrEnum):
    """Where a program ran; stated in every result, trace and record."""

    MICROVM = "microvm"
    WASM = "wasm"


class ExecutionKind(StrEnum):
    """The execution is …"""

    PROGRAM = "program"  # of a model, in a sandbox
    DIRECT_CALL = "direct call"  # one call that the host made without a program, so in no sandbox


class ExecutionStatus(StrEnum):
    """The execution is …"""

    QUEUED = "queued"  # waiting until fewer than `limits.programs` run
    RUNNING = "running"
    WAITING = "waiting"  # for a person's approval
    SUCCEEDED = "succeeded"  # the program came to its end
    FAILED = "failed"  # the program raised an exception, or is not valid Python
    LIMITED = "limit_exceeded"  # ended by a limit
    CANCELLED = "cancelled"  # ended by the host or the person
    CRASHED = "sandbox_failed"  # the sandbox ended before the program did
    INTERRUPTED = "interrupted"  # codemode-server was killed; a later run recorded that


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """One execution as a store gives it back. Times are seconds since 1970."""

    execution_id: ExecutionId
    principal: Principal
    session: Session
    level: IsolationLevel | None
    """None if it never reached a sandbox, as a direct call never does."""
    status: ExecutionStatus
    started_at: float
    code: str | None = None
    """The program; None once the journal has removed it."""
    ended_at: float | None = None
    error: str | None = None
    calls: int | None = None
    milliseconds: float | None = None
    is_dry_run: bool = False
    applies: ExecutionId | None = None
    """The dry run whose plan it carries out."""
    description: str | None = None
    """The model's description of the program, as far as the configuration allows in records."""
    recorded_code: str | None = None
    """The program as `state.payloads` let it be recorded when it ran."""
    answer: str | None = None
    """The text that the model got last; None if it is not recorded (any more)."""

    @property
    def kind(self) -> ExecutionKind:
        """Kind of a recorded execution: a program is recorded once it has its sandbox."""
        return ExecutionKind.DIRECT_CALL if self.level is None else ExecutionKind.PROGRAM


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as a store gives it back. `outcome` is None while it runs, and where it will never be known."""

    call: ToolCall
    decision: Decision
    started_at: float
    outcome: CallOutcome | None = None
    unreadable: str | None = None
    """Why arguments and result are missing (the call has no arguments then, the outcome no result); None if they
    are complete."""
    ended_at: float | None = None
    """The order of the answers: tasks of a program that runs again behave as before if its answers come in this
    order."""

    @property
    def began_at(self) -> float:
        """When the program made it; `started_at` is when it was recorded, after a person was asked."""
        if self.outcome is None or self.ended_at is None:
            return self.started_at
        return min(self.started_at, self.ended_at - self.outcome.milliseconds / 1_000)

    @property
    def status(self) -> CallStatus:
        return self.outcome.status if self.outcome else CallStatus.STARTED


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The plan of a dry run, without secrets."""

    lines: tuple[str, ...] = ()
    """One line for each call."""
    calls: tuple[dict[str, Any], ...] = ()
    unforeseen: tuple[str, ...] = ()
    """Lines on the held-back calls whose results the program uses, and on those that a later read does not show."""
    unstated: tuple[str, ...] = ()
    """Captured tools that seem to read, of which nothing says so: `server.tool`, by raw names."""
    captured: int = 0
    """Number of the calls that may change something and were not sent."""


SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Repeat:
    """Input of a program beside its text and the answers to its calls. The real clock is read and not recorded."""

    seed: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Repeat:
        return cls(secrets.token_bytes(SEED_BYTES))
