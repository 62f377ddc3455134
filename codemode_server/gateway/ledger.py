"""The record of executions and calls: the contract and its states.

A call is recorded before anything of it is sent and settled after; if that can't be done, nothing is sent. What was
recorded is never rewritten but for its settlement, so a call that was started and never settled is one whose outcome
is unknown: the product was killed in the middle of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from codemode_server.model import ExecutionId

MAX_CODE_CHARACTERS = 64 * 1024
"""What is recorded of a program."""
MAX_ERROR_CHARACTERS = 4 * 1024
"""What is recorded of the error of an execution or a call."""


class ExecutionStatus(StrEnum):
    """The execution is …"""

    RUNNING = "running"  # recorded; not settled yet
    SUCCEEDED = "succeeded"  # the program came to its end
    FAILED = "failed"  # the program raised, or is no Python
    LIMITED = "limit_exceeded"  # a limit ended it
    CANCELLED = "cancelled"  # the host or the person ended it
    CRASHED = "sandbox_failed"  # the sandbox died under it
    INTERRUPTED = "interrupted"  # the product was killed in the middle of it; a later one noted that


class CallStatus(StrEnum):
    """The call is …"""

    STARTED = "started"  # recorded; if never settled, its outcome is unknown
    SUCCEEDED = "succeeded"  # answered
    FAILED = "failed"  # answered with an error of the upstream's own
    REFUSED = "refused"  # the permissions refused it; nothing was sent
    INVALID = "invalid"  # its schema or a limit refused it, or it can't be called; nothing was sent
    UNAVAILABLE = "unavailable"  # the upstream was not there, or went away in the middle
    TIMED_OUT = "timed_out"  # sent and not answered in time; its outcome is unknown
    CANCELLED = "cancelled"  # the program ended before the answer; its outcome is unknown


@dataclass(frozen=True, slots=True)
class ExecutionStart:
    execution_id: ExecutionId
    session_id: str
    customer: str
    level: str
    code: str | None
    """The program, or a digest of it, or nothing, as `state.payloads` says."""


@dataclass(frozen=True, slots=True)
class CallStart:
    execution_id: ExecutionId
    seq: int
    """1, 2, 3 … within its execution, in the order in which the program sent them."""
    server: str
    tool: str
    """Raw names, as the upstream has them."""
    verdict: str
    reason: str
    arguments: str | None


class Ledger(Protocol):
    """Keeps the record. Every method raises `LedgerUnavailable` if it can't."""

    def record_execution_started(self, start: ExecutionStart) -> None: ...

    def record_execution_settled(
        self, execution_id: ExecutionId, status: ExecutionStatus, error: str | None, calls: int, milliseconds: float
    ) -> None: ...

    def record_call_started(self, start: CallStart) -> None: ...

    def record_call_settled(
        self,
        execution_id: ExecutionId,
        seq: int,
        status: CallStatus,
        milliseconds: float,
        result_bytes: int,
        result: str | None,
        error: str | None,
    ) -> None: ...
