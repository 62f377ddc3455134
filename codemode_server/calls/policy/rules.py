"""Decides from `permissions` of the configuration: the first rule that matches, otherwise the preset or the default.

Pure: what a rule with a limit has let through is counted by `policy.limits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from codemode_server.calls.policy.conditions import Arguments, Condition, NotEvaluable
from codemode_server.calls.policy.names import READ_METHOD, READ_RESOURCE, Spellings, fits
from codemode_server.calls.policy.settings import Answer, Preset, RuleLimit
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.catalog.resources import MODULE, Resource
from codemode_server.config.settings import PermissionRule, PermissionSettings
from codemode_server.domain.calls import Allow, Ask, Deny
from codemode_server.domain.tools import Effect
from codemode_server.support.setting_types import RuleEffect

RuleDecision = Allow | Ask | Deny
_DECISIONS: dict[Answer, type[RuleDecision]] = {"allow": Allow, "ask": Ask, "deny": Deny}
_EFFECTS: dict[Effect, RuleEffect] = {
    Effect.READS: "read",
    Effect.WRITES: "write",
    Effect.DESTROYS: "destructive",
    Effect.UNKNOWN: "write",
}
_OTHERWISE: dict[Preset, Answer] = {"read-only": "deny", "careful": "ask", "trusted": "allow"}
"""Decision of each preset on tools that do not only read."""

_GLOB_MARKS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a rule, apart from the arguments."""

    server: Spellings
    tool: Spellings
    effect: RuleEffect

    @classmethod
    def of_tool(cls, server: Server, tool: Tool) -> Subject:
        return cls(Spellings.of_server(server), Spellings.of_tool(tool), _EFFECTS[tool.effect])

    @classmethod
    def of_reading(cls, server: Server, spellings: Spellings) -> Subject:
        """A resource or a prompt, which can only be read."""
        return cls(Spellings.of_server(server), spellings, "read")

    @classmethod
    def of_listed(cls, server: Server, listed: Tool | Resource) -> Subject:
        if isinstance(listed, Tool):
            return cls.of_tool(server, listed)
        return cls.of_reading(server, Spellings.of_resource(listed))


@dataclass(frozen=True)
class Rule:
    """A rule of the configuration with its number."""

    number: int
    settings: PermissionRule

    @property
    def answer(self) -> Answer:
        return self.settings.answer

    @cached_property
    def condition(self) -> Condition | None:
        return None if self.settings.when is None else Condition(self.settings.when)

    @cached_property
    def limit(self) -> RuleLimit | None:
        return None if self.settings.limit is None else RuleLimit.parse(self.settings.limit)

    @property
    def is_unconditional(self) -> bool:
        """True if it matches every call of what it names."""
        return self.condition is None and self.settings.principals is None

    @property
    def source(self) -> str:
        """Which rule it is, for people and models."""
        return f"rule {self.number} of permissions.rules ({self.settings.text})"

    @property
    def decision(self) -> RuleDecision:
        reason = self.settings.reason
        return _DECISIONS[self.answer](f"{self.source}: {reason}" if reason else self.source)

    def is_for(self, names: frozenset[str]) -> bool:
        """True if the rule concerns the principal with these names (`Caller.names`)."""
        return self.settings.principals is None or not names.isdisjoint(self.settings.principals)

    def why_never(self, subject: Subject) -> str:
        """Why it matches no call of the subject, whatever its arguments are; empty if it may match one."""
        server, tool = self.settings.globs
        # An upstream that adds `a_b` takes that name from `a-b`; a `deny` that was written for it still holds.
        is_wide = self.answer != "allow"
        if not fits(subject.server, server, is_wide=is_wide):
            return f"the server is {subject.server.raw}"
        if not fits(subject.tool, tool, is_wide=is_wide):
            return f"the tool is {subject.tool.raw}"
        return "" if self.means(subject.effect) else f"the effect is {subject.effect}"

    def means(self, effect: RuleEffect) -> bool:
        """True if it may match a tool with this effect."""
        wanted = self.settings.effect
        is_worse = self.answer != "allow" and (wanted, effect) == ("write", "destructive")
        return wanted in (None, effect) or is_worse

    @property
    def names_resources(self) -> bool:
        glob = self.settings.globs[1]
        return glob == READ_RESOURCE or glob.startswith(f"{MODULE}/")

    def why_not_now(self, arguments: Arguments) -> str:
        """Why it does not match these arguments; empty if it does. Where that is not certain, only a rule that does not
        allow matches."""
        if self.condition is None:
            return ""
        try:
            return "" if self.condition.holds(arguments) else "its condition is false"
        except NotEvaluable as error:
            return f"its condition can't be evaluated: {error}" if self.answer == "allow" else ""


def deciding_rule(relevant: Iterable[Rule], arguments: Arguments) -> Rule | None:
    """The first of these rules that matches the arguments."""
    return next((rule for rule in relevant if not rule.why_not_now(arguments)), None)


class PermissionRules:
    """The rules of one configuration, as they are for one principal; or for anybody: then a rule that names principals
    may match or not."""

    def __init__(self, permissions: PermissionSettings, names: frozenset[str] | None = None) -> None:
        """`names` are those of the principal."""
        self._permissions = permissions
        self._names = names
        self.rules = tuple(Rule(number, rule) for number, rule in enumerate(permissions.rules, start=1))
        self._restricting = tuple(it for it in self.rules if it.answer != "allow" and it.names_resources)

    def relevant(self, subject: Subject, names: frozenset[str] | None = None) -> tuple[Rule, ...]:
        """The rules that may match calls of the subject, in their order; by the principal with these `names`."""
        return tuple(rule for rule in self.rules if not self.why_never(rule, subject, names))

    def why_never(self, rule: Rule, subject: Subject, names: frozenset[str] | None = None) -> str:
        """Why one of the rules matches no call of the subject by this principal; empty if it may match one."""
        names = self._names if names is None else names
        if names is not None and not rule.is_for(names):
            return "it is for other principals"
        if rule.answer == "allow" and not rule.names_resources:
            restricting = self._restricting_rules(subject, names)
            if restricting and restricting[0].number < rule.number:
                return f"{restricting[0].source} restricts resources, and this rule names none"
        return rule.why_never(subject)

    def unmatched(self, subject: Subject, names: frozenset[str] | None = None) -> RuleDecision:
        """The decision on calls of the subject that no rule matches. If a rule restricts some resources of a server, it
        restricts all that no rule allows: the server may take many spellings of a URI for the same."""
        restricting: list[Rule] = []
        if self._restricting:
            restricting = self._restricting_rules(subject, self._names if names is None else names)
        if not restricting:
            return self.otherwise(subject.effect)
        rule = min(restricting, key=lambda it: it.answer != "deny")
        remedy = f"a rule has to name the others that may be read, as `allow: {subject.server.raw}/{MODULE}/NAME`"
        return type(rule.decision)(f"{rule.source} restricts resources of {subject.server.raw}; {remedy}")

    def _restricting_rules(self, subject: Subject, names: frozenset[str] | None) -> list[Rule]:
        """The rules that restrict resources of the subject's server, in their order, if it is a resource."""
        return [
            it
            for it in (self._restricting if subject.tool.raw == READ_METHOD else ())
            if fits(subject.server, it.settings.globs[0], is_wide=True)
            and (it.settings.principals is None if names is None else it.is_for(names))
        ]

    def otherwise(self, effect: RuleEffect) -> RuleDecision:
        """The decision where no rule matches."""
        preset = self._permissions.preset
        if preset is None:
            default = self._permissions.default
            return _DECISIONS[default](f"permissions.default is {default!r}")
        if effect == "read":
            return Allow(f"permissions.preset {preset!r} allows tools that only read")
        answer = _OTHERWISE[preset]
        says = {"allow": "allows all tools", "ask": "asks before tools that change something"}
        return _DECISIONS[answer](f"permissions.preset {preset!r} {says.get(answer, 'allows only tools that read')}")

    def _possible(self, subject: Subject) -> Iterator[RuleDecision]:
        """The decisions that calls of the subject can get, those of earlier rules first."""
        for rule in self.relevant(subject):
            yield rule.decision
            if rule.condition is None and (self._names is not None or rule.settings.principals is None):
                return  # it matches every call
        yield self.unmatched(subject)

    def always_denied(self, subject: Subject) -> Deny | None:
        """The first reason for which every call of the subject is denied; None if one may be let through."""
        possible = list(self._possible(subject))
        first = possible[0]
        return first if isinstance(first, Deny) and all(isinstance(one, Deny) for one in possible) else None

    def asks_first(self, subject: Subject) -> bool:
        """True if no call of the subject is sent without a person's approval, and some may be with it."""
        kinds = {type(one) for one in self._possible(subject)}
        return Ask in kinds and Allow not in kinds

    def may_pass(self, effect: RuleEffect) -> bool:
        """True if a call of some tool with this effect may be let through, perhaps after a person has approved it."""
        for rule in self.rules:
            if not rule.means(effect) or (rule.names_resources and effect != "read"):
                continue
            if rule.answer != "deny":
                return True
            if rule.settings.globs == ("*", "*") and rule.is_unconditional:
                return False
        return not isinstance(self.otherwise(effect), Deny)

    def place_before_asking(self, reason: str) -> int | None:
        """Where a rule has to be put so that it decides on the calls that are asked about for this reason, and on no
        others of its tool: the index of the rule that asks, or the number of rules if the default or the preset does.
        None if something else asks, or a rule with a condition, a limit or principals: it does not mean all calls."""
        for rule in self.rules:
            if isinstance(rule.decision, Ask) and rule.decision.reason == reason:
                return rule.number - 1 if rule.is_unconditional and rule.limit is None else None
        decisions = (self.otherwise(effect) for effect in _EFFECTS.values())
        is_last = any(isinstance(it, Ask) and it.reason == reason for it in decisions)
        return len(self.rules) if is_last else None

    def place_for(self, answer: Answer, pattern: str) -> int:
        """The index at which to insert a rule with this answer for this `server/tool`: behind the rules that may match
        the same calls and must be looked at first. Nothing comes before a rule that denies; rules that deny come before
        one that asks; all but unconditional questions come before one that allows."""
        if answer == "deny":
            return 0
        server, _, tool = pattern.partition("/")

        def is_first(rule: Rule) -> bool:
            is_plain_question = rule.answer == "ask" and rule.is_unconditional and rule.limit is None
            return not is_plain_question if answer == "allow" else rule.answer == "deny"

        places = [
            rule.number
            for rule in self.rules
            if is_first(rule)
            and _may_meet(server, rule.settings.globs[0])
            and _may_meet(tool or "*", rule.settings.globs[1])
        ]
        return max(places, default=0)


def _may_meet(one: str, other: str) -> bool:
    """True unless no name fits both of these globs over names of servers or of tools."""
    for name, glob in ((one, other), (other, one)):
        if _GLOB_MARKS.isdisjoint(name):
            return fits(Spellings(name, name_alone(name, Kind.TOOL)), glob, is_wide=True)
    return True


def with_permitted_prompts(catalog: Catalog, permissions: PermissionSettings) -> Catalog:
    """The catalog without the prompts that are denied whatever their arguments are; those that a person is asked about
    stay. What does not change stays the same object, since what was computed of it is stored in it."""
    rules = PermissionRules(permissions)

    def permitted(server: Server) -> Server:
        prompts = tuple(
            prompt
            for prompt in server.listing.prompts
            if rules.always_denied(Subject.of_reading(server, Spellings.of_prompt(prompt.name))) is None
        )
        return server if server.prompts == prompts else replace(server, prompts=prompts)

    servers = tuple(map(permitted, catalog.servers))
    return catalog if servers == catalog.servers else Catalog(servers)
