"""The tools of a server as the settings offer them: those that they select, with the effects that they state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.setting_types import RuleEffect
from codemode_server.settings import ServerSettings

_EFFECTS: dict[RuleEffect, Effect] = {"read": Effect.READS, "write": Effect.WRITES, "destructive": Effect.DESTROYS}


def offered_tools(tools: Iterable[ToolDefinition], settings: ServerSettings) -> tuple[ToolDefinition, ...]:
    """The tools that exist for programs and searches. What the person says of a tool goes before its annotations."""
    return tuple(_with_effect(tool, settings) for tool in tools if settings.tools.selects(tool.name))


def _with_effect(tool: ToolDefinition, settings: ServerSettings) -> ToolDefinition:
    stated = settings.effect_of(tool.name)
    return tool if stated is None else replace(tool, effect=_EFFECTS[stated])
