"""Refusals of calls: the error for the program, and which tools are refused whatever a call's arguments are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from codemode_server.catalog.catalog import RefusalOf, Server, Tool
from codemode_server.catalog.resources import Resource
from codemode_server.catalog.tool_lines import AsksFirst
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.calls import Allow, Ask, Capture, Decision, Deny, Recorded
from codemode_server.domain.errors import CallRefused
from codemode_server.domain.tools import Refusal, ToolDefinition
from codemode_server.gateway.policy.rules import PermissionRules, Subject

_MAX_PRINCIPALS = 64
"""Principals with rules of their own for which decisions are remembered."""


def require_not_denied(title: str, decision: Decision) -> None:
    """Return if the call `title` may be sent, perhaps after a person has approved it.

    Raises:
        CallRefused: it may not; the message is for the model.
    """
    if refusal := refusal_of(decision):
        raise CallRefused(refusal.message(title))


def refusal_of(decision: Decision) -> Refusal | None:
    """Why calls with this decision are refused; None if they are not."""
    match decision:
        case Allow() | Ask() | Recorded() | Capture():
            return None
        case Deny(reason=reason, advice=advice):
            said = f". {advice}" if advice else ""
            return Refusal("not permitted", f"is not permitted: {reason.rstrip('.')}", reason, said)


@dataclass(frozen=True, slots=True)
class ToolRefusals:
    """Which tools and resources no program of one principal may use now, and why, and which tools ask first."""

    of: RefusalOf
    """The refusal that every call of a tool, or reading of a resource, gets."""
    asks_first: AsksFirst
    """Predicate: no call of the tool is sent before the person has approved it."""


class Refusals:
    """The refusals under the permissions in force, decided once for each tool and principal."""

    def __init__(
        self, config: LiveConfig, hidden: Callable[[str, ToolDefinition], Deny | None] = lambda _server, _tool: None
    ) -> None:
        """`hidden` says of a tool, by its server's raw name, why it is refused since its definition is not accepted."""
        self._config = config
        self._hidden = hidden
        self._permissions = config.settings.permissions
        self._for: OrderedDict[frozenset[str], _Decided] = OrderedDict()

    def for_principal(self, context: RequestContext) -> ToolRefusals:
        """The refusals for the principal of a request; they follow an edited configuration."""
        return ToolRefusals(partial(self._refusal, context), partial(self._asks_first, context))

    def _refusal(self, context: RequestContext, server: Server, tool: Tool | Resource) -> Refusal | None:
        refusal, _ = self._decided(context).of(server, tool)
        if refusal is None and isinstance(tool, Tool):
            denial = self._hidden(server.raw_name, tool.definition)
            refusal = None if denial is None else refusal_of(denial)
        return refusal

    def _asks_first(self, context: RequestContext, server: Server, tool: Tool) -> bool:
        return self._decided(context).of(server, tool)[1]

    def _decided(self, context: RequestContext) -> _Decided:
        if self._permissions is not self._config.settings.permissions:
            self._permissions, self._for = self._config.settings.permissions, OrderedDict()
        named = {it for rule in self._permissions.rules for it in rule.principals or ()}
        names = context.names & named  # principals that no rule names share what is decided
        found = self._for.pop(names, None) or _Decided(PermissionRules(self._permissions, names))
        self._for[names] = found  # the latest last
        if len(self._for) > _MAX_PRINCIPALS:
            self._for.popitem(last=False)
        return found


class _Decided:
    """Decisions on each tool, for principals to whom the same rules apply."""

    def __init__(self, rules: PermissionRules) -> None:
        self._rules = rules
        self._known: WeakKeyDictionary[Tool | Resource, tuple[Refusal | None, bool]] = WeakKeyDictionary()

    def of(self, server: Server, tool: Tool | Resource) -> tuple[Refusal | None, bool]:
        if tool not in self._known:
            subject = Subject.of_listed(server, tool)
            denial = self._rules.always_denied(subject)
            refusal = None if denial is None else refusal_of(denial)
            self._known[tool] = refusal, self._rules.asks_first(subject)
        return self._known[tool]
