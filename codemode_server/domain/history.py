"""Searches for executions, and what they find: facts about executions and calls without any of their values. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from codemode_server.domain.calls import RetryReason
from codemode_server.domain.executions import ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Executions that fit everything that is given. Times are seconds since 1970."""

    text: str = ""
    """Part of the name of a server or tool, of a reason or of what the audit holds; or how an id begins."""
    server: str = ""
    tool: str = ""
    """Raw names, whole."""
    status: ExecutionStatus | None = None
    since: float = 0.0
    before: float | None = None
    limit: int = 50
    in_values: bool = False
    """True if the text may also be part of what the journal has encrypted: programs, arguments, results and answers."""


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    execution_id: ExecutionId
    session_id: str
    level: IsolationLevel | None
    started_at: float
    status: ExecutionStatus
    milliseconds: float | None
    calls: int | None
    tools: tuple[str, ...] = ()
    """The first tools that it called, as `server.tool` in raw names."""
    description: str | None = None
    """The model's description of the program, as long as the journal has it."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    executions: tuple[ExecutionSummary, ...]
    older_than: float | None
    """Older executions may fit as well: search before this time. None if there are none."""


@dataclass(frozen=True, slots=True)
class ApprovalWait:
    asked_at: float
    answered_at: float | None
    answer: str = ""
    """Who answered over which channel."""


@dataclass(frozen=True, slots=True)
class CallRetry:
    """One call was tried again, after its upstream had not carried it out."""

    at: float
    reason: RetryReason

    def after_ms(self, started_at: float) -> float:
        """From the start of the call; not negative, also if the clock was set back meanwhile."""
        return max(0.0, self.at - started_at) * 1_000


@dataclass(frozen=True, slots=True)
class DecisionCount:
    decision: str
    reason: str
    calls: int


@dataclass(frozen=True, slots=True)
class ToolUse:
    calls: int
    last_at: float
