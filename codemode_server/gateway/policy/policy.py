"""Decides whether a call may be sent: every step of the policy answers, and the most restrictive answer decides.

A step is one reason to restrict calls: the rules of the configuration (`permission_step.py`) are the first; the others
are given to the gateway. Pure, apart from the counters of rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Capture, Decision, Deny, Recorded
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.permission_step import PermissionStep, Rates
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions
from codemode_server.gateway.targets import CallTarget, ToolTarget
from codemode_server.permission_settings import RuleLimit

_QUOTA = "limits.calls_per_minute"
_STRICTNESS: dict[type[Decision], int] = {Allow: 0, Ask: 1, Capture: 2, Recorded: 3, Deny: 4}
"""Nobody is asked about a call that is only captured or replayed, since nothing is sent."""


class PolicyStep(Protocol):
    """One reason to restrict calls."""

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Decision | None:
        """The decision on a call with these raw argument names, with the reason; None if the step has no say in it."""


class ChangedToolsStep:
    """Refuses calls of tools whose definition is hidden until the person accepts it."""

    def __init__(self, definitions: ToolDefinitions) -> None:
        self._definitions = definitions

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Deny | None:
        if not isinstance(target, ToolTarget):
            return None
        return self._definitions.refusal(target.server.raw_name, target.tool.definition)


class Policy:
    """Decides under the configuration in force."""

    def __init__(
        self, config: LiveConfig, steps: Sequence[PolicyStep] = (), *, permissions: PermissionStep | None = None
    ) -> None:
        """`steps` come after the rules of the configuration."""
        self._config = config
        self._permissions = permissions or PermissionStep(config)
        self._rates = Rates()
        self._steps = tuple(steps)

    def decide(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        arguments: dict[str, Any],
        *,
        is_counted: bool = False,
        is_made: bool = False,
        is_captured: bool = False,
        also: Decision | None = None,
    ) -> Decision:
        """The most restrictive decision of all steps.

        A call that is let through counts for the limits of rules, unless `is_counted`: it was decided before. One that
        an earlier run made (`is_made`) exceeds none, and counts for those of the execution alone. One that is not
        sent (`is_captured`) has to do with those of the execution alone. `also` is what the guardrails found; it
        restricts as a step does.
        """
        ruling = self._permissions.rule_on(
            calls, target, arguments, is_counted=is_counted, is_made=is_made, is_captured=is_captured
        )
        is_free = is_counted or is_made or is_captured
        per_minute = 0 if is_free else self._config.settings.limits.calls_per_minute
        limit = RuleLimit(per_minute, 60.0)
        wait = self._rates.seconds_until_free(calls, _QUOTA, limit) if per_minute else None
        refusal = None
        if wait is not None:
            why = f"{_QUOTA} is {per_minute:,}; the next call is possible in {math.ceil(wait)} s"
            refusal = Deny(why, advice="")
        steps = (step.decide(calls, target, arguments) for step in self._steps)
        decision = most_restrictive([one for one in (ruling.decision, refusal, *steps, also) if one is not None])
        if isinstance(decision, Allow | Ask):
            self._permissions.count(calls, ruling)
            if per_minute:
                self._rates.count(calls, _QUOTA, limit)
        return decision


def most_restrictive(decisions: Sequence[Decision]) -> Decision:
    """The most restrictive decision, of equal ones the first. If several ask, the reason has those of all: a person has
    to know everything that is approved."""
    decision = max(decisions, key=lambda one: _STRICTNESS[type(one)])
    return joined([one for one in decisions if isinstance(one, Ask)]) if isinstance(decision, Ask) else decision


def joined(questions: Sequence[Ask]) -> Ask:
    """One question for all of them."""
    reasons = dict.fromkeys(one.reason for one in questions)
    return Ask("; ".join(reasons), tuple(line for one in questions for line in one.details))
