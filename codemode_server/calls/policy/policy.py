"""Decides on calls by the rules of the configuration, and combines decisions: the most restrictive one holds.

Pure: `limits` counts calls, and layers of `kernel` restrict them beside the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.conditions import Arguments
from codemode_server.calls.policy.rules import PermissionRules, Rule, Subject, deciding_rule
from codemode_server.calls.policy.settings import PermissionSettings
from codemode_server.calls.targets import CallTarget, ResourceTarget, ToolTarget
from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Capture, Decision, Deny, Recorded

_STRICTNESS: dict[type[Decision], int] = {Allow: 0, Ask: 1, Capture: 2, Recorded: 3, Deny: 4}
"""Nobody is asked about a call that is only captured or replayed, since nothing is sent."""
_NO_NAMES = frozenset[str]()


class Policy:
    """The rules of the configuration in force."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._in_force = _InForce(config.settings.permissions)

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Decision:
        rules = self._rules
        names = calls.caller.names if rules.permissions.rules else _NO_NAMES
        subject, rule = rules.deciding(names, target, arguments)
        if rule is not None:
            return rule.decision
        if isinstance(target, ResourceTarget) and target.found.problem:  # never sent, and the nearest names help
            return rules.rules.otherwise(subject.effect)
        return rules.rules.unmatched(subject, names)

    def rule(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Rule | None:
        """The rule that decides; None if none matches."""
        return self._rules.deciding(calls.caller.names, target, arguments)[1]

    @property
    def has_limits(self) -> bool:
        """True if any rule has a limit."""
        return self._rules.has_limits

    @property
    def _rules(self) -> _InForce:
        if self._in_force.permissions is not self._config.settings.permissions:
            self._in_force = _InForce(self._config.settings.permissions)
        return self._in_force


class _InForce:
    """The rules of one configuration, and those of them that each tool needs, for whomever they concern."""

    def __init__(self, permissions: PermissionSettings) -> None:
        self.permissions = permissions
        self.rules = PermissionRules(permissions)
        self.has_limits = any(rule.limit is not None for rule in permissions.rules)
        self._by_tool: WeakKeyDictionary[Tool, tuple[Subject, tuple[Rule, ...]]] = WeakKeyDictionary()

    def deciding(
        self, names: frozenset[str], target: CallTarget, arguments: dict[str, Any]
    ) -> tuple[Subject, Rule | None]:
        """The subject of a call by the principal with these names, and the rule that decides on it, if any."""
        subject, relevant = self._rules_for(target, names)
        return subject, deciding_rule(relevant, Arguments(target.sent(arguments))) if relevant else None

    def _rules_for(self, target: CallTarget, names: frozenset[str]) -> tuple[Subject, tuple[Rule, ...]]:
        """The subject of a call, and the rules that may match it, for the principal with these names."""
        if not isinstance(target, ToolTarget):
            subject = Subject.of_reading(target.server, target.spellings)
            return subject, self.rules.relevant(subject, names)
        if (known := self._by_tool.get(target.tool)) is None:
            subject = Subject.of_tool(target.server, target.tool)
            known = self._by_tool[target.tool] = subject, self.rules.relevant(subject)
        subject, relevant = known
        return subject, tuple([rule for rule in relevant if rule.is_for(names)]) if relevant else ()


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
