"""Refusals of calls: the error for the program, and which tools are refused whatever a call's arguments are."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from codemode_server.calls.policy.rules import PermissionRules, Subject
from codemode_server.calls.targets import CallTarget, title_of
from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.resources import Resource
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import Decision, Deny
from codemode_server.domain.errors import CallRefused
from codemode_server.domain.tools import Refusal, ToolDefinition

_MAX_PRINCIPALS = 64
"""Principals with rules of their own for which decisions are remembered."""
Hidden = Callable[[str, ToolDefinition], Deny | None]
"""Why a tool, by its server's raw name, is refused since its definition is not accepted; None if it is not."""


def require_not_denied(target: CallTarget, decision: Decision) -> None:
    """Return if a call of the target may be sent, perhaps after a person has approved it. Raises `CallRefused` if it
    may not; the message is for the model."""
    if isinstance(decision, Deny) and (refusal := refusal_of(decision)):
        raise CallRefused(refusal.message(title_of(target)))


def refusal_of(decision: Decision) -> Refusal | None:
    """Why calls with this decision are refused; None if they are not."""
    return Refusal(decision.reason, decision.advice) if isinstance(decision, Deny) else None


class Refusals:
    """The refusals under the permissions in force, decided once for each tool and principal."""

    def __init__(self, config: LiveConfig, hidden: Hidden = lambda _server, _tool: None) -> None:
        self._config = config
        self._hidden = hidden
        self._permissions = config.settings.permissions
        self._for: dict[frozenset[str], ToolRefusals] = {}

    def for_principal(self, context: Caller) -> ToolRefusals:
        """The refusals for the principal of a request, under the configuration in force now."""
        if self._permissions is not self._config.settings.permissions or len(self._for) > _MAX_PRINCIPALS:
            self._permissions, self._for = self._config.settings.permissions, {}
        named = {it for rule in self._permissions.rules for it in rule.principals or ()}
        names = context.names & named  # principals that no rule names share what is decided
        if names not in self._for:
            self._for[names] = ToolRefusals(PermissionRules(self._permissions, names), self._hidden)
        return self._for[names]


class ToolRefusals:
    """Which tools and resources no program may use of principals to whom the same rules apply, and why, and which tools
    ask first."""

    def __init__(self, rules: PermissionRules, hidden: Hidden) -> None:
        self._rules = rules
        self._hidden = hidden
        self._decided: WeakKeyDictionary[Tool | Resource, tuple[Refusal | None, bool]] = WeakKeyDictionary()

    def of(self, server: Server, tool: Tool | Resource) -> Refusal | None:
        """The refusal that every call of a tool, or reading of a resource, gets."""
        refusal = self._decision(server, tool)[0]
        denial = self._hidden(server.raw_name, tool.definition) if refusal is None and isinstance(tool, Tool) else None
        return refusal if denial is None else refusal_of(denial)

    def asks_first(self, server: Server, tool: Tool) -> bool:
        """True if no call of the tool is sent before the person has approved it."""
        return self._decision(server, tool)[1]

    def _decision(self, server: Server, tool: Tool | Resource) -> tuple[Refusal | None, bool]:
        if tool not in self._decided:
            subject = Subject.of_listed(server, tool)
            denial = self._rules.always_denied(subject)
            self._decided[tool] = None if denial is None else refusal_of(denial), self._rules.asks_first(subject)
        return self._decided[tool]
