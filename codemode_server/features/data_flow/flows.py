"""The rules that regard where data came from: what a session has read decides where it may send data.

It only restricts: a call that a rule of `permissions.rules` allows may still be asked about here, or denied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from codemode_server.calls.policy.names import READ_METHOD, READ_RESOURCE, Spellings, fits
from codemode_server.calls.policy.settings import FlowRule, PermissionSettings
from codemode_server.calls.targets import CallTarget
from codemode_server.catalog.labels import PRIVATE, PUBLIC_SINK, UNTRUSTED
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Deny
from codemode_server.domain.flows import ANY_TOOL, Source, SourceSet
from codemode_server.features.data_flow.labels import ToolLabels
from codemode_server.features.data_flow.read_sources import described
from codemode_server.support.text import first_few

_MAX_NAMED = 3


class FlowRules:
    """Decides on calls by what was read before them."""

    def __init__(self, config: LiveConfig, labels: ToolLabels) -> None:
        self._config = config
        self._labels = labels

    def regard(self, target: CallTarget) -> bool:
        """True if anything that was read could restrict a call."""
        return self._is_sink(target) or bool(self._rules_to(target))

    def decide(self, target: CallTarget, read: SourceSet) -> Deny | Ask | None:
        """The decision on a call after these sources were read."""
        found = list(self._by_rules(self._rules_to(target), read, target))
        if self._is_sink(target) and (reason := self._leak(read)):
            is_denied = self._config.settings.permissions.public_sinks == "deny"
            found.append((Deny if is_denied else Ask)(reason))
        for kind in (Deny, Ask):
            if reasons := [it.reason for it in found if isinstance(it, kind)]:
                return kind("; and ".join(reasons))
        return None

    def _is_sink(self, target: CallTarget) -> bool:
        return self._config.settings.permissions.public_sinks != "allow" and PUBLIC_SINK in self._labels.of(target)

    def _rules_to(self, target: CallTarget) -> list[tuple[int, FlowRule]]:
        server, labels = Spellings.of_server(target.server), self._labels.of(target)
        return _rules_to(self._config.settings.permissions, server, target.spellings, labels)

    def _by_rules(
        self, rules: Iterable[tuple[int, FlowRule]], read: SourceSet, target: CallTarget
    ) -> Iterator[Deny | Ask]:
        for number, rule in rules:
            sources = [it for it in read if self._means(rule.source, it, target)]
            if sources:
                name = f"rule {number} of permissions.flows.rules (from: {rule.source}, to: {rule.to})"
                reason = f"{name}: this session has read {_named(sources)}"
                reason = f"{reason}: {rule.reason}" if rule.reason else reason
                yield Deny(reason) if rule.decision == "deny" else Ask(reason)

    def _means(self, pattern: str, source: Source, target: CallTarget) -> bool:
        labels = self._labels.of_source(source)
        if "/" not in pattern and pattern not in labels and source.server == target.server.raw_name:
            return False  # a server gets its own data back
        server, _, tool = source.title.partition(".")
        also = (READ_RESOURCE,) if source.tool == READ_METHOD else ()
        names = Spellings(source.tool, tool, also=also)
        if source.tool == ANY_TOOL:
            pattern = pattern.partition("/")[0]
        return _fits(pattern, Spellings(source.server, server), names, labels)

    def _leak(self, read: SourceSet) -> str:
        """Why data may leak; empty if it can't."""
        labels = [(it, self._labels.of_source(it)) for it in read]
        private = [it for it, its in labels if PRIVATE in its]
        untrusted = [it for it, its in labels if UNTRUSTED in its]
        if not private or not untrusted:
            return ""
        return (
            f"it may send data to others ({PUBLIC_SINK}), and this session has read {PRIVATE} data "
            f"({_named(private)}) and {UNTRUSTED} text ({_named(untrusted)}): permissions.flows.public_sinks"
        )


def _named(sources: Sequence[Source]) -> str:
    """Those that were read first, and how many more there are: an answer that a person gives for one reason must not
    cover a call after further sources."""
    return first_few([*map(described, sources)], _MAX_NAMED)


def flows_to(
    permissions: PermissionSettings, server: Spellings, tool: Spellings, labels: frozenset[str]
) -> Iterator[str]:
    """Rules that decide on calls of this tool in sessions that have read something, a line each."""
    if PUBLIC_SINK in labels and permissions.public_sinks != "allow":
        yield f"{permissions.public_sinks} after {PRIVATE} and {UNTRUSTED} data: permissions.flows.public_sinks"
    for number, rule in _rules_to(permissions, server, tool, labels):
        yield f"{rule.decision} after data from {rule.source}: rule {number} of permissions.flows.rules"


def _rules_to(
    permissions: PermissionSettings, server: Spellings, tool: Spellings, labels: frozenset[str]
) -> list[tuple[int, FlowRule]]:
    numbered = enumerate(permissions.flows.rules, start=1)
    return [(number, rule) for number, rule in numbered if _fits(rule.to, server, tool, labels)]


def _fits(pattern: str, server: Spellings, tool: Spellings, labels: frozenset[str]) -> bool:
    server_glob, has_tool, tool_glob = pattern.partition("/")
    if not has_tool and pattern in labels:
        return True
    return fits(server, server_glob, is_wide=True) and (not has_tool or fits(tool, tool_glob, is_wide=True))
