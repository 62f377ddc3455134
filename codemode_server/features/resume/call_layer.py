"""The layers of a program that runs again: recorded answers, and the calls that depart from what was recorded."""

from __future__ import annotations

from codemode_server.calls.decisions import Decisions
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.calls.policy.policy import joined
from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Decision, Recorded
from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import Reply


class Departures(Layer):
    """Has a person asked about calls that differ from the earlier run, or from the plan that is applied."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def is_for(self, calls: ExecutionCalls) -> bool:
        return calls.resumed is not None or calls.plan is not None

    async def around(self, call: Call, proceed: Next) -> Reply:
        calls = call.calls
        if call.target.effect is not Effect.READS and isinstance(call.decision, Allow | Ask):
            for expected in (calls.resumed, calls.plan):
                if expected is None:
                    continue
                departure = await expected.departure(call.record, lambda: bool(calls.in_flight))
                if departure is not None:
                    await _depart(call, departure, self._decisions)
        return await proceed(call)


class Replay(Layer):
    """Answers calls that the earlier run made from the journal."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def is_for(self, calls: ExecutionCalls) -> bool:
        return calls.resumed is not None

    async def settle(self, call: Call) -> None:
        resumed, plan, decided = call.calls.resumed, call.calls.plan, call.decision
        if resumed is None:
            return
        found: Decision = resumed.decision(call.record, call.target.effect, decided)
        if isinstance(found, Recorded) and plan is not None and call.target.effect is not Effect.READS:
            plan.take_replayed(call.record)
        if isinstance(found, Ask) and found is not decided:
            await _depart(call, found, self._decisions)
        else:
            call.decision = found

    async def around(self, call: Call, proceed: Next) -> Reply:
        if isinstance(call.decision, Recorded):
            return _recorded_reply(call.decision.outcome)
        return await proceed(call)


async def _depart(call: Call, departure: Ask, decisions: Decisions) -> None:
    """Make it one question with what is asked already, the same that each later decision asks."""
    call.departure = departure if call.departure is None else joined([call.departure, departure])
    await decisions.decide_again(call)


def _recorded_reply(outcome: CallOutcome) -> Reply:
    """The answer of an earlier run; raises `ToolFailed` if that was an error."""
    if outcome.status is CallStatus.FAILED and outcome.result is None:
        raise ToolFailed(outcome.error or "it failed in the earlier run")
    return Reply(outcome.result, outcome.encoding)
