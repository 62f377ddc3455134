"""What the pages show and do, as they need it; the command implements it on the stores.

Everything belongs to one principal. Secrets of the configuration are masked already; nothing is escaped yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from codemode_server.domain.approvals import Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.executions import ExecutionRecord
from codemode_server.domain.history import (
    ApprovalWait,
    CallRetry,
    CallSummary,
    DecisionCount,
    HistoryPage,
    HistoryQuery,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.savings import Savings, TokenUsage

Action = Literal["resume", "replay"]


@dataclass(frozen=True, slots=True)
class Rerun:
    """A program that this page runs again, or has run."""

    action: Action
    is_running: bool
    text: str = ""
    """What the model would get, or why it could not run."""


@dataclass(frozen=True, slots=True)
class ExecutionDetail:
    """One execution. Its code is what the configuration lets be shown."""

    record: ExecutionRecord
    is_code_whole: bool
    """Whether `record.code` is the program, and not what stands for it."""
    code_tokens: int | None
    """About how many tokens the model wrote."""
    calls: Sequence[CallSummary]
    more_after: int | None
    """The number of the last call that is shown, if there are more."""
    waits: dict[int, ApprovalWait]
    retries: dict[int, list[CallRetry]]
    can_run_again: bool
    """Whether the journal still has the program."""
    rerun: Rerun | None = None
    usage: TokenUsage | None = None
    """The tokens of the exchanges with the host; None if none is counted (any more)."""


@dataclass(frozen=True, slots=True)
class CallValues:
    """Arguments and result of one call as JSON, as far as the configuration lets them be shown."""

    call: CallSummary
    arguments: str | None
    result: str | None
    error: str | None
    note: str
    """Why something is missing, or stands for the values."""


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule of the configuration, and how often it decided."""

    text: str
    calls: int


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rules, what decides otherwise, and how often each reason decided."""

    rules: tuple[RuleLine, ...]
    otherwise: str
    decisions: tuple[DecisionCount, ...]
    counted_rows: int
    """So many of the newest rows of the audit were counted."""


class Records(Protocol):
    """Every method raises a `CodemodeError` with a message for the person if it can't do what it should."""

    async def search(self, query: HistoryQuery) -> HistoryPage: ...

    async def execution(self, execution_id: ExecutionId, *, after: int = 0) -> ExecutionDetail | None:
        """One execution with its calls after number `after`, none of whose values is decrypted."""

    async def call(self, execution_id: ExecutionId, seq: int) -> CallValues | None:
        """One call, decrypted."""

    def run_again(self, action: Action, execution_id: ExecutionId) -> None:
        """Start to run the program of an execution again."""

    async def cancel(self, execution_id: ExecutionId) -> None:
        """Ask the product that runs an execution to cancel it."""

    async def approvals(self) -> Sequence[Approval]:
        """The questions that can be answered now, oldest first."""

    async def open_questions(self) -> Sequence[tuple[ExecutionId, ApprovalId]]:
        """Which there are, each with the execution that it is of; nothing of them is decrypted."""

    async def approval(self, approval_id: ApprovalId) -> Approval | None: ...

    async def answer(self, approval_id: ApprovalId, answer: ApprovalAnswer) -> None:
        """Answer a question that is open."""

    async def permissions(self) -> Permissions: ...

    async def savings(self, days: int) -> Savings:
        """The tokens of the last days."""

    async def explain(self, call: str, arguments: str) -> str:
        """What the permissions decide on `server/tool` with these arguments as JSON; empty for any."""
