"""The step of the policy that applies `permissions` of the configuration in force."""

from __future__ import annotations

from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Decision
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.rules import decide
from codemode_server.gateway.targets import CallTarget


class PermissionStep:
    """Applies the rules."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Decision:
        return decide(self._config.settings.permissions, Spellings.of_server(target.server), target.spellings)
