"""Refusals of calls: the error for the program, and which tools are refused whatever a call's arguments are."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.resources import Resource
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Decision, Deny, Replay, Simulate
from codemode_server.domain.errors import CallRefused
from codemode_server.domain.tools import Refusal
from codemode_server.gateway.policy.rules import PermissionRules, Subject

_ADVICE = ". Do not try again; tell the user."


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
        case Allow() | Ask() | Replay() | Simulate():
            return None
        case Deny(reason=reason):
            return Refusal("not permitted", f"is not permitted: {reason.rstrip('.')}", reason, _ADVICE)


class Refusals:
    """Which tools and resources no program may use under the permissions in force, and why, and which tools ask first;
    decided once for each."""

    def __init__(
        self, config: LiveConfig, is_held_back: Callable[[Server, Tool], bool] = lambda _server, _tool: False
    ) -> None:
        """`is_held_back`: whether the person is asked about a tool since its definition is not accepted."""
        self._config = config
        self._is_held_back = is_held_back
        self._permissions = config.settings.permissions
        self._rules = PermissionRules(self._permissions)
        self._decided: WeakKeyDictionary[Tool | Resource, tuple[Refusal | None, bool]] = WeakKeyDictionary()

    def of(self, server: Server, tool: Tool | Resource) -> Refusal | None:
        """The refusal that every call of the tool, or reading of the resource, gets now; a `catalog.RefusalOf`."""
        return self._decision(server, tool)[0]

    def asks_first(self, server: Server, tool: Tool) -> bool:
        """Whether no call of the tool is sent now before the person has approved it; a `catalog.AsksFirst`."""
        refusal, asks_first = self._decision(server, tool)
        return asks_first or (refusal is None and self._is_held_back(server, tool))

    def _decision(self, server: Server, tool: Tool | Resource) -> tuple[Refusal | None, bool]:
        if self._permissions is not self._config.settings.permissions:
            self._permissions = self._config.settings.permissions
            self._rules, self._decided = PermissionRules(self._permissions), WeakKeyDictionary()
        if tool not in self._decided:
            subject = Subject.of_listed(server, tool)
            denial = self._rules.always_denied(subject)
            refusal = None if denial is None else refusal_of(denial)
            self._decided[tool] = refusal, self._rules.asks_first(subject)
        return self._decided[tool]
