"""What a question says that the program has done: calls that were sent and may have changed something."""

from __future__ import annotations

import pytest

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect
from codemode_server.executions.approvals.question import done_so_far
from codemode_server.gateway.execution_calls import CallReport, ExecutionCalls


def done(status: CallStatus, effect: Effect = Effect.WRITES) -> tuple[str, ...]:
    report = CallReport(1, "github", "create_issue", status, 1.0, effect=effect)
    context = RequestContext.of(Session("s"), LiveConfig())
    return done_so_far(ExecutionCalls(ExecutionId("x1"), context, reports=[report]))


@pytest.mark.parametrize("status", ["succeeded", "failed", "timed_out", "unknown", "cancelled"])
def test_a_write_that_was_sent_is_named(status: str) -> None:
    (line,) = done(CallStatus(status))
    assert "github.create_issue" in line


@pytest.mark.parametrize("status", ["refused", "invalid", "unavailable"])
def test_a_write_that_was_not_sent_is_not(status: str) -> None:
    assert done(CallStatus(status)) == ()


def test_a_call_that_only_reads_is_not() -> None:
    assert done(CallStatus.SUCCEEDED, Effect.READS) == ()
