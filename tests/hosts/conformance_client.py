"""The client that the conformance suite tests: the product with the suite's server as its only upstream.

The tools of that server are called as direct tools: with the arguments that the scenario gives, or each once with
arguments made from its schema. The suite starts this as a command and appends the address of its server.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.domain.tools import ToolDefinition
from tests.behaviour.product import Host, configuration

VALUES: dict[str, Any] = {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}, "null": None}
"""By type; anything else is a text."""


def arguments_of(tool: ToolDefinition, tools: list[ToolDefinition]) -> dict[str, Any]:
    """An argument `schema` gets the schema of another tool, as the product knows it."""
    fields = tool.input_schema.get("properties", {})
    given = {
        name: field.get("default", VALUES.get(str(field.get("type")), "text"))
        for name, field in fields.items()
        if isinstance(field, dict)
    }
    others = [other.input_schema for other in tools if other is not tool]
    return given | {"schema": others[0]} if "schema" in fields and others else given


async def accept(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """The user takes every default, and agrees."""
    fields = getattr(params, "requested_schema", {}).get("properties", {})
    content = {name: field.get("default", VALUES.get(field["type"], "text")) for name, field in fields.items()}
    return ElicitResult(action="accept", content=content)


async def call_tools(url: str) -> None:
    scenario = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder:
        path = configuration(Path(folder), {"suite": {"url": url, "direct": ["*"], "timeout": 20}})
        async with App.open(load(path)) as app, Client(app.front, elicitation_callback=accept) as client:
            host = Host(client, Path(folder))
            await host.settled()
            tools = [tool.definition for tool in app.catalog().tools()]
            calls = [(call["name"], call["arguments"]) for call in scenario.get("toolCalls", ())]
            for name, arguments in calls or [(tool.name, arguments_of(tool, tools)) for tool in tools]:
                answer = await host.call(f"suite__{name.replace('-', '_')}", **arguments)
                print(name, answer.text[:200])


if __name__ == "__main__":
    anyio.run(call_tools, sys.argv[-1])
