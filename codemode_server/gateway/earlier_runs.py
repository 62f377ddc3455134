"""What earlier runs of a program mean for its calls: answers that are used again, departures that a person approves.

A program that is resumed or replayed has an earlier run (`past_calls`), one that is applied has the plan of its dry
run (`plan`), and one that is applied and resumed has both.
"""

from __future__ import annotations

from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Decision, Deny, Replay, ToolCall
from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.tools import Effect
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.policy import joined
from codemode_server.gateway.targets import CallTarget
from codemode_server.sandbox.contract import Reply


def decision_after(
    calls: ExecutionCalls, call: ToolCall, target: CallTarget, decided: Decision
) -> tuple[Decision, Ask | None]:
    """The decision on a call where `decided` is that of the policy, and what a person has to approve beside that."""
    if calls.past is None:
        return decided, None
    found = calls.past.decision(call, target.effect, decided)
    if isinstance(found, Replay) and calls.plan is not None and target.effect is not Effect.READS:
        calls.plan.take_replayed(call)
    if isinstance(found, Ask) and found is not decided:
        return with_departure(decided, found), found
    return found, None


async def departure_of(calls: ExecutionCalls, call: ToolCall, target: CallTarget) -> Ask | None:
    """What a person has to approve about a call that differs from the earlier run or from the plan; else None."""
    found: list[Ask] = []

    def has_others() -> bool:
        return bool(calls.in_flight)

    if calls.past is not None:
        departing = await calls.past.departure(call, target.effect, has_others)
        found += [] if departing is None else [departing]
    if calls.plan is not None and target.effect is not Effect.READS:
        unplanned = await calls.plan.departure(call, has_others)
        found += [] if unplanned is None else [unplanned]
    return joined(found) if found else None


def with_departure(decided: Decision, departure: Ask | None) -> Decision:
    """One question about a departure and about what the policy asks."""
    if departure is None or not isinstance(decided, Allow | Ask):
        return decided
    return joined([departure, *([decided] if isinstance(decided, Ask) else [])])


def naming_departure(calls: ExecutionCalls, ask: Ask, answer: Allow | Deny) -> Allow | Deny:
    """The answer to a question; that of a program that runs again names the call of its earlier run."""
    is_compared = calls.past is not None or calls.plan is not None
    if isinstance(answer, Deny) and is_compared and ask.reason not in answer.reason:
        return Deny(f"{answer.reason} ({ask.reason})")
    return answer


def recorded_reply(outcome: CallOutcome) -> Reply:
    """The answer of an earlier run; raises `ToolFailed` if that was an error."""
    if outcome.status is CallStatus.FAILED and outcome.result is None:
        raise ToolFailed(outcome.error or "it failed in the earlier run")
    return Reply(outcome.result, outcome.encoding)
