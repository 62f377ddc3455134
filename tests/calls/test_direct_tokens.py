"""When calls of a program count as one turn of a model that makes them itself. The events are those of calls."""

from __future__ import annotations

from typing import Any, cast

from codemode_server.calls.events import CallEnded
from codemode_server.calls.execution_calls import DirectEstimate, ExecutionCalls
from codemode_server.calls.results import ResultSummary, sizes_of
from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, ToolCall
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.savings import ServerTokens
from codemode_server.features.savings.direct_tokens import begin, count_direct_tokens
from codemode_server.sandbox.contract import Reply

ISSUES, CHANNEL = ("github", "list_issues"), ("slack", "read_channel")


def turns_of(*steps: tuple[int, tuple[str, str]] | int) -> int:
    """A pair begins a call with this number, a number ends it."""
    direct = DirectEstimate()
    for step in steps:
        if isinstance(step, int):
            direct.in_flight.discard(step)
        else:
            begin(direct, *step)
    return direct.turns


def test_calls_of_one_tool_or_at_once_are_one_turn_and_others_are_a_turn_each() -> None:
    assert turns_of() == 0
    assert turns_of((1, ISSUES), 1, (2, ISSUES), 2) == 1
    assert turns_of((1, ISSUES), (2, CHANNEL), 1, 2) == 1
    assert turns_of((1, ISSUES), 1, (2, CHANNEL), 2, (3, ISSUES), 3) == 3


NAME = ExecutionId("x1")


def counted(reply: Reply, *, arguments: dict[str, Any] | None = None, is_sent: bool = True) -> ServerTokens | None:
    """What one call with this result counts."""
    calls = ExecutionCalls(NAME, cast("Any", None))
    call = ToolCall(NAME, 1, *ISSUES, arguments or {}, CallKey(*ISSUES, "0" * 64, 1))
    if is_sent:
        begin(calls.direct, 1, ISSUES)
    result, outcome = ResultSummary(*sizes_of(reply.value)), CallOutcome(CallStatus.SUCCEEDED, 1.0)
    target = cast("Any", None)
    count_direct_tokens(CallEnded(calls, call, target, Allow("r"), outcome, None, reply=reply, result=result))
    return calls.direct.servers.get("github")


def test_a_call_that_was_not_sent_counts_nothing() -> None:
    assert counted(Reply("a result of an earlier run"), is_sent=False) is None
    assert counted(Reply("a result")) is not None, "control"
