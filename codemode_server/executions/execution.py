"""A live execution: one program from its request to its settlement, its limits, and the input requests for its host.

A host of protocol 2026-07-28 gets requests as an answer to its tool call, so between two of its requests nobody serves
them.
"""

from __future__ import annotations

import secrets
import time
from asyncio import Task, shield
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import anyio

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import Caller
from codemode_server.config.settings import LimitSettings
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel, PlanReport, Repeat
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.input_requests import Feature, InputRequest
from codemode_server.domain.principals import Owner, Session
from codemode_server.executions.artifacts import Item
from codemode_server.executions.attachments import ShownFile
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.preflight.preflight import Checked
from codemode_server.sandbox.contract import Ending, Limits, Outcome
from codemode_server.support.change_signal import ChangeSignal


@dataclass(slots=True)
class _Pending:
    request: InputRequest
    is_settled: anyio.Event = field(default_factory=anyio.Event)
    answer: dict[str, Any] = field(default_factory=dict)


class PendingInput:
    """Implements `HostInput` for one execution."""

    def __init__(self, features: frozenset[Feature] = frozenset()) -> None:
        self.features = features
        self._waiting: dict[str, _Pending] = {}
        self.changed = ChangeSignal()
        """Notified when a request comes."""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        key, pending = secrets.token_hex(8), _Pending(request)
        self._waiting[key] = pending
        self.changed.notify()
        try:
            await pending.is_settled.wait()
        finally:
            self._waiting.pop(key, None)
        return pending.answer

    @property
    def waiting(self) -> Mapping[str, InputRequest]:
        """The requests without an answer, by their keys."""
        return {key: pending.request for key, pending in self._waiting.items() if not pending.is_settled.is_set()}

    def settle(self, key: str, answer: dict[str, Any]) -> None:
        """Pass on the host's answer; one to a request that is gone is dropped."""
        if (pending := self._waiting.get(key)) is not None:
            pending.answer = answer
            pending.is_settled.set()


class Phase(StrEnum):
    ACCEPTED = "accepted"
    QUEUED = "queued"  # waits until fewer than `limits.programs` run
    PREPARING = "preparing"  # the sandbox backend is not ready yet
    CHECKING = "checking"
    RUNNING = "running"  # handed to the backend; its code runs once `Execution.begun` is set


@dataclass(slots=True)
class DirectCall:
    """The one call of an execution without a program."""

    server: str
    tool: str
    """Raw names; of a prompt, its name."""
    arguments: dict[str, JsonValue]
    is_prompt: bool = False
    reply: JsonValue = None
    """What the upstream answered, as guardrails leave it."""
    result: dict[str, JsonValue] = field(default_factory=dict)
    """As the upstream sent it, without secrets; empty until it is there, and if the call failed."""


@dataclass(slots=True)
class Execution:
    """One live program, or one direct call. `done` is set once it is settled; from then on it does not change."""

    execution_id: ExecutionId
    code: str
    caller: Caller
    limits: Limits
    calls: ExecutionCalls
    results: CallResults
    direct_call: DirectCall | None = None
    description: str = ""
    """The model's description of the program; empty if it gives none."""
    repeat: Repeat = field(default_factory=Repeat.new)
    imported: dict[str, str] = field(default_factory=dict)
    """The texts of the skills that it imported, by their files: `skills/triage.py`."""
    own: dict[type, Any] = field(default_factory=dict)
    is_recorded: bool = False
    """True if the journal was asked to record its start."""
    recording: Task[None] | None = None
    """Ends once the start is recorded; None if the journal has it from an earlier run."""
    status: ExecutionStatus = ExecutionStatus.QUEUED
    phase: Phase = Phase.ACCEPTED
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when a sandbox begins to run it."""
    workspace: Path | None = None
    """The folder that it sees as /workspace, if not that of its principal."""
    checked: Checked = field(default_factory=Checked)
    outcome: Outcome = field(default_factory=lambda: Outcome(Ending.DIED))
    level: IsolationLevel | None = None
    """None if it never ran in a sandbox."""
    warnings: list[str] = field(default_factory=list)
    """Doubts of the static check, a line each; the model gets them with the result."""
    unsearched_files: Callable[[], Literal["show", "mark", "refuse"]] = lambda: "show"
    """The handling of shown files in which personal data can't be searched."""
    shown: list[ShownFile] = field(default_factory=list)
    """The files that it showed to the model, in order."""
    artifacts: dict[str, Item | str] = field(default_factory=dict)
    """The artifacts of its `value`, `stdout` and `calls`, or the reason why there is none."""
    awaited: dict[int, str] = field(default_factory=dict)
    """The calls that wait for a person: their numbers (`seq`) → `server.tool`."""
    reported_waiting: frozenset[int] = frozenset()
    """Those of them that the host's last answer named."""
    has_log: bool = False
    """True if the log of its session is to have it."""
    may_be_logged: bool = True
    """False if its session has read what must not be in the log."""
    is_suspended: bool = False
    """True if others run in its place."""
    is_detached: bool = False
    is_given_up: bool = False
    """True if it was ended because it was suspended for too long; it can be resumed."""
    is_rerun: bool = False
    applies: ExecutionId | None = None
    plan: PlanReport | None = None
    resumed: anyio.Event = field(default_factory=anyio.Event)
    """Set when the host repeats the call that was answered with input requests."""
    recorded_code: str | None = None
    """Its program and its error as `state.payloads` lets them be recorded."""
    recorded_error: str | None = None
    milliseconds: float = 0.0
    """From its request to its settlement, the wait for its turn included."""
    started_at: float = field(default_factory=time.time)
    """Seconds since 1970."""
    done: anyio.Event = field(default_factory=anyio.Event)
    changed: ChangeSignal = field(default_factory=ChangeSignal)
    """Notified when a call begins or ceases to wait for a person, when there is a request for its host, and at the
    end."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    owner: Owner = field(init=False)
    session: Session = field(init=False)
    is_dry_run: bool = field(init=False)
    """True if its calls that may change something are not sent."""
    is_replay: bool = field(init=False)
    """True if the journal answers all its calls."""

    def __post_init__(self) -> None:
        self.owner, self.session = self.caller.owner, self.caller.session
        if self.pending_input is not None:
            self.changed = self.pending_input.changed
        self.is_dry_run = self.calls.captured is not None
        self.is_replay = self.calls.resumed is not None and self.calls.resumed.is_closed

    async def wait_recorded(self) -> None:
        """Return once its start is recorded. Raises as `Journal.begin_execution`: then it must not run."""
        if self.recording is not None:
            await shield(self.recording)

    @property
    def pending_input(self) -> PendingInput | None:
        """Input requests of its upstreams, if they are sent as answers to the host's call."""
        return self.calls.host if isinstance(self.calls.host, PendingInput) else None

    def wait_in_queue(self) -> None:
        self.phase = Phase.QUEUED

    def record(self) -> ExecutionRecord:
        return ExecutionRecord(
            self.execution_id,
            self.caller.principal,
            self.session,
            self.level,
            self.status,
            self.started_at,
            code=self.code or None,
            calls=self.calls.started,
            is_dry_run=self.is_dry_run,
            applies=self.applies,
            description=self.description or None,
        )


def limits_of(settings: LimitSettings, timeout_s: float | None) -> Limits:
    """The limits of one program; `timeout_s` takes the place of `limits.wall_seconds`."""
    limits = Limits.model_construct(**vars(settings))
    if timeout_s is None:
        return limits
    is_lower = timeout_s < settings.wall_seconds
    return limits.model_copy(update={"wall_seconds": timeout_s, "wall_seconds_from_argument": is_lower})


def new_id() -> ExecutionId:
    return ExecutionId("x" + secrets.token_hex(6))
