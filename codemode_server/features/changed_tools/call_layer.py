"""Refuses calls of tools whose definition is hidden until the person accepts it."""

from __future__ import annotations

from codemode_server.calls.kernel import Call, Layer
from codemode_server.calls.targets import ToolTarget
from codemode_server.domain.calls import Deny
from codemode_server.features.changed_tools.tool_definitions import ToolDefinitions


class ChangedTools(Layer):
    def __init__(self, definitions: ToolDefinitions) -> None:
        self._definitions = definitions

    async def restrict(self, call: Call) -> Deny | None:
        if not isinstance(call.target, ToolTarget):
            return None
        return self._definitions.refusal(call.target.server.raw_name, call.target.tool.definition)
