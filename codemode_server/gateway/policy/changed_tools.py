"""The step of the policy that holds back tools whose definition changed since it was accepted, and new ones if asked.

A rule that allows a tool was written for the tool as it was; so the step asks even then.
"""

from __future__ import annotations

from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Decision, Deny
from codemode_server.domain.definition_changes import DefinitionChange
from codemode_server.domain.tools import ToolDefinition
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions, Unaccepted, answer_for, kind_of
from codemode_server.gateway.targets import CallTarget, ToolTarget

REVIEW = "codemode-server tools review"


class ChangedToolsStep:
    """Asks or denies for definitions that nobody has accepted; has no say in others."""

    def __init__(self, definitions: ToolDefinitions, config: LiveConfig) -> None:
        self._definitions = definitions
        self._config = config

    def decide(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Decision | None:
        if not isinstance(target, ToolTarget):
            return None
        return self.decide_on(target.server.raw_name, target.tool.definition)

    def decide_on(self, server: str, definition: ToolDefinition) -> Deny | Ask | None:
        """The decision on every call of a tool, by the raw name of its server."""
        if self._definitions.held_back(server, definition) == "allow":
            return None
        found = self._definitions.unaccepted_now(server, definition)
        if found is None:
            return None
        if answer_for(found.definition, self._config.settings.permissions) == "deny":
            return Deny(_reason(found))
        return Ask(_reason(found), _details(found.change))


def _reason(found: Unaccepted) -> str:
    """Without a word of the definition: programs, plans and the model read the reason."""
    kind = kind_of(found.definition)
    what = {
        "new": "the tool is new on this server (permissions.new_tools)",
        "changed": "the tool changed since it was accepted (permissions.changed_tools)",
    }.get(kind, f"the tool seems to be {kind} (permissions.changed_tools)")
    return f"{what}; `{REVIEW}` shows and accepts it"


def _details(change: DefinitionChange) -> tuple[str, ...]:
    """What differs, for the person alone."""
    summary = (f"differs: {change.summary}",) if change.summary else ()
    return (*summary, *change.shortened())
