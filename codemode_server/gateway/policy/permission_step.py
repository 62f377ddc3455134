"""The step of the policy that applies `permissions` of the configuration in force, and the counters of its limits."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from codemode_server.catalog.catalog import Tool
from codemode_server.conditions import Arguments
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Deny
from codemode_server.domain.ids import PrincipalId
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.rules import PermissionRules, Rule, RuleDecision, Subject, deciding_rule
from codemode_server.gateway.targets import CallTarget, ToolTarget
from codemode_server.permission_settings import RuleLimit
from codemode_server.settings import PermissionSettings

_MAX_WINDOWS = 10_000
"""Counters of principals and rules; beyond it those are dropped whose time has passed."""


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


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of the rules on one call, and the rule with a limit that lets it through, if there is one."""

    decision: RuleDecision
    counts: Rule | None = None


class PermissionStep:
    """Applies the rules."""

    def __init__(self, config: LiveConfig, rates: Rates | None = None) -> None:
        self._config = config
        self._rates = rates or Rates()
        self._in_force = _InForce(config.settings.permissions)

    def rule_on(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        arguments: dict[str, Any],
        *,
        is_counted: bool,
        is_made: bool = False,
        is_captured: bool = False,
    ) -> Ruling:
        """The decision on a call. `is_counted`: it was let through before, so no limit is looked at. `is_made`: an
        earlier run of the execution made it, so it counts for limits of the execution alone. `is_captured`: it is not
        sent, so it counts for no rate."""
        if self._in_force.permissions is not self._config.settings.permissions:
            self._in_force = _InForce(self._config.settings.permissions)
        subject, relevant = self._in_force.rules_for(target, calls.context.names)
        rule = deciding_rule(relevant, Arguments(target.sent(arguments)))
        if rule is None:
            return Ruling(self._in_force.rules.otherwise(subject.effect))
        if rule.limit is None or is_counted:
            return Ruling(rule.decision)
        if is_made:
            return Ruling(rule.decision, rule if rule.limit.seconds is None else None)
        if is_captured and rule.limit.seconds is not None:
            return Ruling(rule.decision)
        wait = self._rates.seconds_until_free(calls, _key(rule), rule.limit)
        return Ruling(rule.decision, rule) if wait is None else Ruling(_exceeded(rule, wait))

    def count(self, calls: ExecutionCalls, ruling: Ruling) -> None:
        """Count a call that is let through."""
        if ruling.counts is not None and ruling.counts.limit is not None:
            self._rates.count(calls, _key(ruling.counts), ruling.counts.limit)


class _InForce:
    """The rules of one configuration, and those of them that each tool needs, for whomever they concern."""

    def __init__(self, permissions: PermissionSettings) -> None:
        self.permissions = permissions
        self.rules = PermissionRules(permissions)
        self._by_tool: WeakKeyDictionary[Tool, tuple[Subject, tuple[Rule, ...]]] = WeakKeyDictionary()

    def rules_for(self, target: CallTarget, names: frozenset[str]) -> tuple[Subject, tuple[Rule, ...]]:
        """The subject of a call, and the rules that may match it, for the principal with these names."""
        subject, relevant = self._rules_for(target)
        return subject, tuple(rule for rule in relevant if rule.is_for(names))

    def _rules_for(self, target: CallTarget) -> tuple[Subject, tuple[Rule, ...]]:
        if not isinstance(target, ToolTarget):
            subject = Subject.of_reading(target.server, target.spellings)
            return subject, self.rules.relevant(subject)
        if (known := self._by_tool.get(target.tool)) is None:
            subject = Subject.of_tool(target.server, target.tool)
            known = self._by_tool[target.tool] = subject, self.rules.relevant(subject)
        return known


def _key(rule: Rule) -> str:
    """The same for a rule after an edit that leaves it as it is, wherever it stands then."""
    return rule.settings.text


def _exceeded(rule: Rule, wait: float) -> Deny:
    more = "" if math.isinf(wait) else f"; the next call is possible in {math.ceil(wait)} s"
    return Deny(f"{rule.source}: its limit of {rule.settings.limit} is reached{more}")
