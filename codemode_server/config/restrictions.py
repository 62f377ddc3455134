"""Translates the restrictions in a host's entry to our tool filters and permission rules.

A tool that can't be called in the host can't be called here. A restriction that is not understood disables its server.
Nothing in an entry (`autoApprove`, `alwaysAllow`, `trust`) grants a permission.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codemode_server.config.document import Node
from codemode_server.config.problems import Problems

INCLUDING = frozenset({"includeTools", "enabledTools", "enabled_tools", "available_tools"})
EXCLUDING = frozenset({"excludeTools", "disabledTools", "disabled_tools"})
RESTRICTING = INCLUDING | EXCLUDING | {"tools", "default_tools_approval_mode"}

_DENIES, _ASKS, _ALLOWS = (
    frozenset({"always_deny", "deny"}),
    frozenset({"always_ask", "ask", "prompt"}),
    frozenset({"always_allow", "allow", "approve", "auto"}),
)
_NOT_UNDERSTOOD = "is not understood, so what it switches off is not known; write `tools: {include: [a], exclude: [b]}`"


@dataclass(slots=True)
class Restrictions:
    """The restrictions of one entry."""

    problems: Problems
    include: list[Node] | None = None
    """Globs; none if every tool may be used."""
    exclude: list[Node] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    """Globs of the tools that the host asks about."""

    def add(self, key: str, node: Node) -> None:
        """Adds one field of the entry."""
        if key in INCLUDING:
            self._only(node, empty_means_all=key == "available_tools")
        elif key in EXCLUDING:
            self.exclude += [_excluding(name) for name in self._names(node)]
        elif key == "default_tools_approval_mode":
            self._policy("*", node)
        elif isinstance(node.value, list) and any(isinstance(item.value, dict) for item in node.value):
            for item in node.value:
                self._named_policy(item)
        elif isinstance(node.value, list):
            self._only(node)
        elif isinstance(node.value, dict) and node.entries.keys() <= {"include", "exclude"}:
            self._ours(node)
        elif isinstance(node.value, dict):
            for name, child in node.entries.items():
                self._member(name, child)
        elif node.value is not None:
            self.problems.add(node.line, node.where, _NOT_UNDERSTOOD)

    def as_tools(self, line: int, where: str) -> Node | None:
        """Our `tools`; none if nothing is left out."""
        found: dict[str, Node] = {}
        if self.include is not None:
            found["include"] = Node(list(self.include), line, where)
        if self.exclude:
            found["exclude"] = Node(list(self.exclude), line, where)
        return Node(found, line, where) if found else None

    def _ours(self, node: Node) -> None:
        for key, globs in node.entries.items():
            if globs.value is None:
                continue
            names = self._names(globs)
            if key == "include":
                self._restrict_to(names)
            else:
                self.exclude += names

    def _only(self, node: Node, *, empty_means_all: bool = False) -> None:
        names = [_including(name) for name in self._names(node)]
        if names or not empty_means_all:
            self._restrict_to(names)

    def _restrict_to(self, names: list[Node]) -> None:
        if self.include is None or any(name.text == "*" for name in self.include):
            self.include = names
        elif not any(name.text == "*" for name in names):
            both = {name.text for name in names}
            self.include = [name for name in self.include if name.text in both]

    def _member(self, name: str, node: Node) -> None:
        """`{name: false}`, or `{name: {enabled: false, approval_mode: prompt}}`."""
        settings = node.entries if isinstance(node.value, dict) else {"enabled": node}
        for key, value in settings.items():
            if key in ("enabled", "disabled") and isinstance(value.value, bool):
                if value.value == (key == "disabled"):
                    self.exclude.append(_excluding(node.with_value(name)))
            elif key in ("approval_mode", "permission_policy"):
                self._policy(name, value)
            else:
                self.problems.add(value.line, value.where, _NOT_UNDERSTOOD)

    def _named_policy(self, item: Node) -> None:
        name, policy = item.entries.get("name"), item.entries.get("permission_policy")
        if name is None or not isinstance(name.value, str):
            self.problems.add(item.line, item.where, _NOT_UNDERSTOOD)
        elif policy is not None:
            self._policy(name.value, policy)

    def _policy(self, name: str, node: Node) -> None:
        if node.value in _DENIES:
            self.exclude.append(_excluding(node.with_value(name)))
        elif node.value in _ASKS:
            self.ask.append(glob_covering(name))
        elif node.value not in _ALLOWS:
            self.problems.add(node.line, node.where, _NOT_UNDERSTOOD)

    def _names(self, node: Node) -> list[Node]:
        if not isinstance(node.value, list) or not all(isinstance(item.value, str) for item in node.value):
            self.problems.add(node.line, node.where, f"must be a list of names; it {_NOT_UNDERSTOOD}")
            return []
        return list(node.value)


def glob_covering(name: str) -> str:
    """A glob that matches at least what the host means by this name."""
    return re.sub(r"[\s/{}\[\]]", "?", name) or "?"


def _excluding(name: Node) -> Node:
    """A glob that matches at least what the host means: of `run(rm -rf)`, all of `run`."""
    text = name.text or str(name.value)
    return name.with_value(glob_covering(re.sub(r"(?<=.)\(.*\)$", "", text)))


def _including(name: Node) -> Node:
    """A glob that matches only what the host means: names are literal there, except a lone `*`."""
    return name.with_value(_exact(re.sub(r"\(.*\)$", "", name.text)))


def _exact(name: str) -> str:
    return name if name == "*" else re.sub(r"[*?\[]", r"[\g<0>]", name)


def strip_server_prefix(pattern: str, prefix: str) -> list[str]:
    """The parts of a pattern over `<server>_<tool>` that are about the tools of the server with this prefix.

    A `*` may match more or less of the prefix, so there may be several; none if the pattern is about other servers.
    """
    rests = {pattern}
    for character in prefix:
        longer: set[str] = set()
        for rest in rests:
            while rest.startswith("*"):
                longer.add(rest)
                rest = rest[1:]
            if rest and rest[0] in ("?", character):
                longer.add(rest[1:])
        rests = longer
    return sorted(rests - {""})
