"""Decides whether a call may be sent, from the permissions of the configuration. Pure.

The first rule that matches decides, otherwise the default. A rule is matched against the names as the upstream has them
and as Python has them, so neither spelling slips past a `deny`.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from weakref import WeakKeyDictionary

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.catalog.resources import MODULE, Resource
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Decision, Deny, Replay, Simulate
from codemode_server.domain.errors import CallRefused
from codemode_server.domain.tools import Refusal
from codemode_server.settings import PermissionRule, PermissionSettings

READ_RESOURCE = "read_resource"
"""The name of reading any resource in `permissions.rules`."""
READ_METHOD = "resources/read"
"""Its name in records: the protocol's method."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """The names under which a rule can mean a server or a tool."""

    raw: str
    python: str
    without_suffix: str = ""
    """The Python name that it would have, and perhaps had, if there were no other like it."""
    also: tuple[str, ...] = ()
    """More names, for rules of any kind."""
    to_refuse: tuple[str, ...] = ()
    """More names, for rules that do not allow."""
    unknown_below: str = ""
    """For rules that do not allow: it may have any name that begins so, since it has too many to find them all."""

    @classmethod
    def of_server(cls, server: Server) -> Spellings:
        return cls(server.raw_name, server.name, name_alone(server.raw_name, Kind.SERVER))

    @classmethod
    def of_tool(cls, tool: Tool) -> Spellings:
        return cls(tool.raw_name, tool.name, name_alone(tool.raw_name, Kind.TOOL))

    @classmethod
    def of_resource(cls, resource: Resource) -> Spellings:
        """As it is listed. Reading it also regards the templates whose expansion its URI may be (`gateway/targets.py`),
        which takes too long for a list."""
        return cls(READ_METHOD, READ_RESOURCE, also=resource_names(resource.uri, resource))


def resource_names(uri: str, *resources: Resource) -> tuple[str, ...]:
    """The names of a URI, and of what it may be, in `permissions.rules`."""
    names = {uri, *(name for it in resources for name in (it.name, it.uri, it.definition.name))}
    return tuple(f"{MODULE}/{name}" for name in sorted(names) if name)


def decide(permissions: PermissionSettings, server: Spellings, tool: Spellings) -> Allow | Deny | Ask:
    """The decision on calls of `tool` on `server`."""
    for number, rule in enumerate(permissions.rules, start=1):
        if _matches(rule, server, tool):
            return _DECISIONS[rule.answer](_reason(rule, number))
    return _DECISIONS[permissions.default](f"permissions.default is {permissions.default!r}")


def require_permission(title: str, decision: Decision) -> None:
    """Return if the call `title` may be sent.

    Raises:
        CallRefused: it may not; the message is for the model.
    """
    if refusal := refusal_of(decision):
        raise CallRefused(refusal.message(title))


def refusal_of(decision: Decision) -> Refusal | None:
    """Why calls with this decision are refused; None if they are sent."""
    match decision:
        case Allow():
            return None
        case Deny(reason=reason):
            return Refusal("not permitted", f"is not permitted: {reason.rstrip('.')}", reason, _ADVICE)
        case Ask(reason=reason):
            predicate = "needs a person's approval, and asking for it is not possible yet, so calls are refused"
            return Refusal("needs a person's approval", f"{predicate} ({reason})", reason, _ADVICE)
        case Replay() | Simulate():
            return Refusal("refused", f"was refused: {decision.kind} is not possible yet", decision.kind)


class Refusals:
    """Which tools and resources no program may use under the permissions in force, and why; decided once for each."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._decided: tuple[PermissionSettings, WeakKeyDictionary[Tool | Resource, Refusal | None]] | None = None

    def of(self, server: Server, tool: Tool | Resource) -> Refusal | None:
        """The refusal that a call of the tool, or a reading of the resource, gets now; a `catalog.RefusalOf`."""
        permissions = self._config.settings.permissions
        if self._decided is None or self._decided[0] is not permissions:
            self._decided = permissions, WeakKeyDictionary()
        known = self._decided[1]
        if tool not in known:
            spellings = Spellings.of_tool(tool) if isinstance(tool, Tool) else Spellings.of_resource(tool)
            known[tool] = refusal_of(decide(permissions, Spellings.of_server(server), spellings))
        return known[tool]


_ADVICE = ". Do not try again; tell the user."
_DECISIONS: dict[Literal["allow", "deny", "ask"], type[Allow | Deny | Ask]] = {"allow": Allow, "deny": Deny, "ask": Ask}


def _matches(rule: PermissionRule, server: Spellings, tool: Spellings) -> bool:
    server_glob, _, tool_glob = rule.pattern.partition("/")
    # An upstream that adds `a_b` takes that name from `a-b`; a `deny` that was written for it still holds.
    is_wide = rule.answer != "allow"
    return _fits(server, server_glob, is_wide=is_wide) and _fits(tool, tool_glob or "*", is_wide=is_wide)


def _fits(names: Spellings, glob: str, *, is_wide: bool) -> bool:
    """A name that looks like a glob, `get[1]`, is meant by itself; letters with marks are the same in either form."""
    if is_wide and names.unknown_below and _may_begin(glob, names.unknown_below):
        return True
    return any(
        spelling == glob or fnmatchcase(spelling, _composed(glob))
        for name in (
            *(names.raw, names.python, *names.also),
            *([names.without_suffix] if is_wide and names.without_suffix else []),
            *(names.to_refuse if is_wide else ()),
        )
        for spelling in (name, _composed(name))
    )


def _may_begin(glob: str, start: str) -> bool:
    """Whether a glob fits any name that begins with `start`."""
    fixed = re.split(r"[*?[]", glob, maxsplit=1)[0]
    return fixed.startswith(start) or (fixed != glob and start.startswith(fixed))


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _reason(rule: PermissionRule, number: int) -> str:
    source = f"rule {number} of permissions.rules ({rule.answer}: {rule.pattern})"
    return f"{source}: {rule.reason}" if rule.reason else source
