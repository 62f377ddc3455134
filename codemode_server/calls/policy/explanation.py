"""Explains what decides on a call: which rule, why those before it do not, and the other steps of the policy.

Also finds rules that can match no tool. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.calls.policy.conditions import Arguments
from codemode_server.calls.policy.names import READ_METHOD, READ_RESOURCE, Spellings, fits
from codemode_server.calls.policy.policy import most_restrictive
from codemode_server.calls.policy.rules import PermissionRules, Rule, RuleDecision, Subject
from codemode_server.calls.policy.settings import PermissionRule, PermissionSettings
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.nearest_names import mistyped_names
from codemode_server.domain.calls import Decision

_DEPENDS = "depends on the arguments"
_GLOB_MARKS = frozenset("*?[")
_READING = Spellings(READ_METHOD, READ_RESOURCE)


@dataclass(frozen=True, slots=True)
class ConsideredRule:
    """One rule, up to the one that decides."""

    rule: Rule
    why_not: str
    """Why it does not match; empty if it does, or may."""
    is_certain: bool = True
    """False: whether it matches depends on the arguments, which are not known."""

    @property
    def text(self) -> str:
        said = self.why_not or ("matches" if self.is_certain else _DEPENDS)
        return f"{self.rule.number}. {self.rule.settings.text}: {said}"

    def as_json(self) -> dict[str, Any]:
        matches = not self.why_not if self.is_certain else None
        return {
            "rule": self.rule.number,
            "text": self.rule.settings.text,
            "matches": matches,
            "why_not": self.why_not or None,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Decisions on a call, as far as its arguments are known."""

    effect: str
    considered: tuple[ConsideredRule, ...]
    decisions: tuple[RuleDecision, ...]
    """Decision of the rules; several if it depends on the arguments."""
    others: tuple[Decision, ...] = ()
    """Decisions of the other steps, which hold whatever the arguments are."""

    @property
    def decision(self) -> RuleDecision | None:
        """Decision of the rules alone."""
        return self.decisions[0] if len(self.decisions) == 1 else None

    @property
    def possible(self) -> tuple[Decision, ...]:
        """Decision of all steps together; several if it depends on the arguments."""
        found = {(it.kind, it.reason): it for it in (most_restrictive([one, *self.others]) for one in self.decisions)}
        return tuple(found.values())

    @property
    def limit(self) -> str | None:
        """The limit of the rule that decides; further calls are denied."""
        if self.decision is None or not self.considered or self.considered[-1].why_not:
            return None
        return self.considered[-1].rule.settings.limit

    @property
    def text(self) -> str:
        found = [f"{it.kind}: {it.reason}" for it in self.possible]
        if len(found) > 1:
            found = [f"{_DEPENDS}; give them with --args. One of:", *(f"  {it}" for it in found)]
        lines = found
        if self.others and self.decision is not None:
            lines.append(f"by the rules alone: {self.decision.kind}: {self.decision.reason}")
        if self.limit is not None:
            lines.append(f"at most {self.limit}; further calls are denied")
        lines.append(f"effect: {self.effect}")
        if self.considered:
            lines += ["rules:", *(f"  {it.text}" for it in self.considered)]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        one = self.possible[0] if len(self.possible) == 1 else None
        return {
            "decision": one.kind if one else None,
            "reason": one.reason if one else None,
            "possible": _as_json(self.possible),
            "by_the_rules": _as_json(self.decisions),
            "beside_the_rules": _as_json(self.others),
            "limit": self.limit,
            "effect": self.effect,
            "rules": [it.as_json() for it in self.considered],
        }


def _as_json(decisions: Iterable[Decision]) -> list[dict[str, str]]:
    return [{"decision": it.kind, "reason": it.reason} for it in decisions]


def explain(
    rules: PermissionRules, subject: Subject, arguments: Mapping[str, Any] | None, others: Sequence[Decision] = ()
) -> Explanation:
    """Explain the decision on a call; without `arguments`, all that it may be. Limits count as not reached. `others`
    are the decisions of the other steps of the policy."""
    considered: list[ConsideredRule] = []
    decisions: list[RuleDecision] = []
    known = None if arguments is None else Arguments(arguments)
    for rule in rules.rules:
        why_not, is_certain = rules.why_never(rule, subject), True
        if not why_not and rule.condition is not None:
            is_certain = known is not None
            why_not = rule.why_not_now(known) if known is not None else ""
        considered.append(ConsideredRule(rule, why_not, is_certain))
        if not why_not:
            decisions.append(rule.decision)
            if is_certain:
                break
    else:
        decisions.append(rules.unmatched(subject))
    return Explanation(subject.effect, tuple(considered), tuple(decisions), tuple(others))


def rules_without_tools(permissions: PermissionSettings, catalog: Catalog) -> Iterator[str]:
    """A warning for each rule that names a tool which its servers don't list. A glob may be a precaution for tools that
    come later, so it is reported only if it looks like a typing mistake."""
    for number, rule in enumerate(permissions.rules, start=1):
        if (found := _without_tool(rule, catalog)) is not None:
            yield f"permissions.rules[rule {number}].{rule.answer}: {found}"


_STRING = re.compile(r"'[^']*'" r'|"[^"]*"')
_COMPARED = re.compile(r"""(?:==|\bin\b)\s*\[?\s*["']|["']\s*==|\.(?:startsWith|endsWith|contains|matches)\(""")


def rules_by_spelling(permissions: PermissionSettings) -> Iterator[str]:
    """A warning for each rule that refuses a call by how a text is written, unless its condition is negated."""
    for number, rule in enumerate(permissions.rules, start=1):
        when = rule.when or ""
        if rule.answer != "allow" and "!" not in _STRING.sub("", when) and _COMPARED.search(when):
            target = getattr(rule, rule.answer)
            remedy = f'`allow: {target}` with `when: args.NAME in ["TEXT"]`, and after it `{rule.answer}: {target}`'
            yield (
                f"permissions.rules[rule {number}].when: another spelling of the text passes, in capitals, as a list, "
                f"with a space; write what may be sent instead: {remedy}"
            )


def _without_tool(rule: PermissionRule, catalog: Catalog) -> str | None:
    server_glob, tool_glob = rule.globs
    servers = [it for it in catalog.servers if fits(Spellings.of_server(it), server_glob, is_wide=True)]
    if not servers and tool_glob == "*":
        owners = [it.raw_name for it in catalog.servers if any(tool.raw_name == server_glob for tool in it.tools)]
        return f"matches no server, but a tool; write {owners[0]}/{server_glob}" if owners else None
    if "/" in tool_glob or fits(_READING, tool_glob, is_wide=True):  # resources and prompts
        return None
    if not servers or not all(server.tools for server in servers):  # one of unknown tools may have it
        return None
    tools = [tool for server in servers for tool in server.tools]
    if any(fits(Spellings.of_tool(tool), tool_glob, is_wide=True) for tool in tools):
        return None
    meant = mistyped_names(tool_glob.strip("*"), (tool.raw_name for tool in tools))
    if not meant and not _GLOB_MARKS.isdisjoint(server_glob + tool_glob):
        return None
    place = servers[0].raw_name if len(servers) == 1 else "these servers"
    return f"matches no tool of {place}" + (f"; did you mean {meant[0]!r}?" if meant else "")
