"""The tools of a server as its settings offer them: selected, and with the effects that the person states."""

from __future__ import annotations

from typing import Any

from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.settings import ServerSettings
from codemode_server.upstreams._offered_tools import offered_tools

TOOLS = (
    ToolDefinition("create_issue", effect=Effect.WRITES),
    ToolDefinition("create_cache", effect=Effect.DESTROYS),
    ToolDefinition("search", effect=Effect.UNKNOWN),
)


def effects(**settings: Any) -> dict[str, Effect]:
    found = offered_tools(TOOLS, ServerSettings.model_validate({"command": "x", **settings}))
    return {tool.name: tool.effect for tool in found}


def test_without_settings_the_annotations_say_what_a_tool_does() -> None:
    assert effects() == {tool.name: tool.effect for tool in TOOLS}


def test_the_first_glob_that_matches_says_what_a_tool_does() -> None:
    stated = {"create_cache": "read", "create_*": "destructive", "sea*": "write"}
    assert effects(effects=stated) == {
        "create_issue": Effect.DESTROYS,
        "create_cache": Effect.READS,
        "search": Effect.WRITES,
    }


def test_a_tool_that_is_not_selected_is_not_offered() -> None:
    assert list(effects(tools={"exclude": ["create_*"]}, effects={"create_*": "read"})) == ["search"]
