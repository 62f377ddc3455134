"""The record of executions and calls: the contract and its states.

A call is recorded before anything of it is sent and settled after; if that can't be done, nothing is sent. What was
recorded is never rewritten but for its settlement, so a call that was started and never settled is one whose outcome
is unknown: the product was killed in the middle of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId

MAX_CODE_CHARACTERS = 64 * 1024
"""What is recorded of a program."""
MAX_ERROR_CHARACTERS = 4 * 1024
"""What is recorded of the error of an execution or a call."""


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
    """Keeps the record. Every method raises `JournalUnavailable` if it can't."""

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
