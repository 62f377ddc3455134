"""The step of the policy that refuses calls of tools whose definition is hidden until the person accepts it."""

from __future__ import annotations

from typing import Any

from codemode_server.domain.calls import Deny
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions
from codemode_server.gateway.targets import CallTarget, ToolTarget


class ChangedToolsStep:
    """Has no say in tools that are not hidden, and in resources and prompts."""

    def __init__(self, definitions: ToolDefinitions) -> None:
        self._definitions = definitions

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Deny | None:
        if not isinstance(target, ToolTarget):
            return None
        return self._definitions.refusal(target.server.raw_name, target.tool.definition)
