"""One call on its way through the pipeline, and the status that its error stands for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.targets import CallTarget, title_of
from codemode_server.domain.calls import Ask, CallStatus, Decision, ToolCall
from codemode_server.domain.errors import (
    AnswerLost,
    CallError,
    CallRefused,
    CallTimedOut,
    InvalidArguments,
    UpstreamUnavailable,
)
from codemode_server.features.guardrails.guarded_calls import GuardedArguments
from codemode_server.features.privacy.release import Release
from codemode_server.support.off_loop import run_sized

_STATUS: tuple[tuple[type[CallError], CallStatus], ...] = (
    (CallRefused, CallStatus.REFUSED),
    (InvalidArguments, CallStatus.INVALID),
    (AnswerLost, CallStatus.UNKNOWN),
    (UpstreamUnavailable, CallStatus.UNAVAILABLE),
    (CallTimedOut, CallStatus.TIMED_OUT),
)


@dataclass(slots=True)
class CallAttempt:
    """One call on its way through the pipeline."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    decision: Decision
    revision: int
    """Revision of the configuration under which it was decided."""
    began_at: float
    """Value of `time.perf_counter`."""
    is_large: bool
    """True if work on the arguments is done in a thread."""
    guarded: GuardedArguments
    """Result of the guardrails."""
    release: Release | None = None
    """The privacy tokens in its arguments, if there are any."""
    departure: Ask | None = None
    """Approval needed because the call differs from an earlier run or a plan."""
    derives: bool = False
    """True if its arguments derive from a placeholder of a dry run."""
    approved: Ask | None = None
    """The question that a person has approved, if any."""
    approval: Decision | None = None
    """The decision that came of it."""
    is_recorded: bool = False
    """True if the journal was asked to record its beginning."""

    @property
    def milliseconds(self) -> float:
        """Since it began."""
        return (time.perf_counter() - self.began_at) * 1e3

    async def check_arguments(self) -> None:
        """Compare what would be sent with the schema of the tool. Raises `InvalidArguments` if it does not fit."""
        check, arguments = self.target.check, self.call.arguments
        if self.release is None:
            await run_sized(self.is_large, check, arguments)
            return
        try:
            await run_sized(self.is_large, check, self.release.arguments)
        except InvalidArguments:
            # Its text may show a part of a value, which no search for values finds.
            await run_sized(self.is_large, check, arguments)
            raise InvalidArguments(
                f"{title_of(self.target)}: the arguments do not fit the schema of the tool with what the privacy "
                "tokens in them stand for"
            ) from None


def status_of(error: CallError) -> CallStatus:
    """The status of a call that ended with this error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), CallStatus.FAILED)
