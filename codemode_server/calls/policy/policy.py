"""Decides whether a call may be sent: every step of the policy answers, and the most restrictive answer decides.

A step is one reason to restrict calls: the rules of the configuration are the first; the others are given to the
gateway. Pure, apart from the counters of rates.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.conditions import Arguments
from codemode_server.calls.policy.rules import PermissionRules, Rule, Subject, deciding_rule
from codemode_server.calls.policy.settings import PermissionSettings, RuleLimit
from codemode_server.calls.targets import CallTarget, ResourceTarget, ToolTarget
from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Capture, Decision, Deny, Recorded
from codemode_server.domain.ids import PrincipalId
from codemode_server.features.changed_tools.tool_definitions import ToolDefinitions

_MAX_WINDOWS = 10_000
"""Counters of principals and rules; beyond it those are dropped whose time has passed."""
_QUOTA = "limits.calls_per_minute"
_STRICTNESS: dict[type[Decision], int] = {Allow: 0, Ask: 1, Capture: 2, Recorded: 3, Deny: 4}
"""Nobody is asked about a call that is only captured or replayed, since nothing is sent."""


PolicyStep = Callable[[ExecutionCalls, CallTarget], Decision | None]
"""One reason to restrict calls; None if it has no say in a call."""


def changed_tools_step(definitions: ToolDefinitions) -> PolicyStep:
    """Refuses calls of tools whose definition is hidden until the person accepts it."""

    def decide(_calls: ExecutionCalls, target: CallTarget) -> Deny | None:
        if not isinstance(target, ToolTarget):
            return None
        return definitions.refusal(target.server.raw_name, target.tool.definition)

    return decide


class Rates:
    """Used on the event loop only, so that calls at the same time can't exceed a limit. Lost with the product."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._windows: dict[tuple[PrincipalId, str], deque[float]] = {}
        """Principal and text of the rule → when each call that counts stops counting."""

    def seconds_until_free(self, calls: ExecutionCalls, rule: str, limit: RuleLimit) -> float | None:
        """None if the limit lets one more call through; infinite if it never does in this execution."""
        if limit.seconds is None:
            return None if calls.counted[rule] < limit.calls else float("inf")
        window = self._window(calls, rule)
        return None if len(window) < limit.calls else window[-limit.calls] - self._now()

    def count(self, calls: ExecutionCalls, rule: str, limit: RuleLimit) -> None:
        if limit.seconds is None:
            calls.counted[rule] += 1
            return
        window = self._window(calls, rule)
        window.append(self._now() + limit.seconds)
        self._windows[calls.context.principal.principal_id, rule] = window
        if len(self._windows) > _MAX_WINDOWS:
            self._drop_passed()

    def _window(self, calls: ExecutionCalls, rule: str) -> deque[float]:
        window = self._windows.get((calls.context.principal.principal_id, rule), deque())
        now = self._now()
        while window and window[0] <= now:
            window.popleft()
        return window

    def _drop_passed(self) -> None:
        now = self._now()
        self._windows = {key: window for key, window in self._windows.items() if window and window[-1] > now}


class Policy:
    """Decides under the configuration in force."""

    def __init__(
        self, config: LiveConfig, steps: Sequence[PolicyStep] = (), *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`steps` come after the rules of the configuration."""
        self._config = config
        self._in_force = _InForce(config.settings.permissions)
        self._rates = Rates(now)
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
        if self._in_force.permissions is not self._config.settings.permissions:
            self._in_force = _InForce(self._config.settings.permissions)
        subject, relevant = self._in_force.rules_for(target, calls.context.names)
        rule = deciding_rule(relevant, Arguments(target.sent(arguments)))
        if isinstance(target, ResourceTarget) and target.found.problem:  # it is never sent, and the nearest names help
            unmatched = self._in_force.rules.otherwise(subject.effect)
        else:
            unmatched = self._in_force.rules.unmatched(subject, calls.context.names)
        decisions: list[Decision] = [unmatched if rule is None else rule.decision]
        has_rates = not (is_counted or is_made or is_captured)
        limits: list[tuple[str, RuleLimit]] = []
        limit = None if rule is None or is_counted else rule.limit
        if rule is not None and limit is not None and (has_rates or limit.seconds is None):
            limits.append((rule.settings.text, limit))  # the same after an edit that leaves the rule as it is
            if not is_made and (wait := self._rates.seconds_until_free(calls, *limits[0])) is not None:
                reason = f"{rule.source}: its limit of {rule.settings.limit} is reached"
                decisions = [Deny(f"{reason}; {_next_in(wait)}", advice="")]
        if has_rates and (per_minute := self._config.settings.limits.calls_per_minute):
            limits.append((_QUOTA, RuleLimit(per_minute, 60.0)))
            if (wait := self._rates.seconds_until_free(calls, *limits[-1])) is not None:
                decisions.append(Deny(f"{_QUOTA} is {per_minute:,}; {_next_in(wait)}", advice=""))
        for step in self._steps:
            if (found := step(calls, target)) is not None:
                decisions.append(found)
        decision = most_restrictive(decisions if also is None else [*decisions, also])
        if isinstance(decision, Allow | Ask):
            for name, limit in limits:
                self._rates.count(calls, name, limit)
        return decision


class _InForce:
    """The rules of one configuration, and those of them that each tool needs, for whomever they concern."""

    def __init__(self, permissions: PermissionSettings) -> None:
        self.permissions = permissions
        self.rules = PermissionRules(permissions)
        self._by_tool: WeakKeyDictionary[Tool, tuple[Subject, tuple[Rule, ...]]] = WeakKeyDictionary()

    def rules_for(self, target: CallTarget, names: frozenset[str]) -> tuple[Subject, tuple[Rule, ...]]:
        """The subject of a call, and the rules that may match it, for the principal with these names."""
        if not isinstance(target, ToolTarget):
            subject = Subject.of_reading(target.server, target.spellings)
            return subject, self.rules.relevant(subject, names)
        if (known := self._by_tool.get(target.tool)) is None:
            subject = Subject.of_tool(target.server, target.tool)
            known = self._by_tool[target.tool] = subject, self.rules.relevant(subject)
        return known[0], tuple(rule for rule in known[1] if rule.is_for(names))


def _next_in(wait: float) -> str:
    return f"the next call is possible in {'another program' if math.isinf(wait) else f'{math.ceil(wait)} s'}"


def most_restrictive(decisions: Sequence[Decision]) -> Decision:
    """The most restrictive decision, of equal ones the first. If several ask, the reason has those of all: a person has
    to know everything that is approved."""
    decision = max(decisions, key=lambda one: _STRICTNESS[type(one)])
    return joined([one for one in decisions if isinstance(one, Ask)]) if isinstance(decision, Ask) else decision


def joined(questions: Sequence[Ask]) -> Ask:
    """One question for all of them."""
    reasons = dict.fromkeys(one.reason for one in questions)
    details = tuple(line for one in questions for line in one.details)
    return Ask("; ".join(reasons), details, any(one.is_unanswered for one in questions))
