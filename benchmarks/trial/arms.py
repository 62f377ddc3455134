"""The ways in which a model gets the servers' tools: each a set of MCP servers that a host connects to.

`direct` connects to every server and shows all of their tools, as `server__tool`; `codemode-server` connects to the
product alone. The model sees the instructions of what it is connected to, as hosts show them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from benchmarks.trial.plan import ROOT
from benchmarks.trial.wire import Definition

SECONDS = 300
"""For one call; the first program on a machine waits until the sandbox is compiled."""
ARMS = ("direct", "codemode-server", "codemode-server with direct tools")


@dataclass
class HostTools:
    """What the model of one run can call."""

    definitions: list[Definition] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    _calls: dict[str, tuple[Client, str]] = field(default_factory=dict)

    async def connect(self, client: Client, server: str = "") -> None:
        """Add a server's tools, under its name where one is given."""
        if client.instructions:
            self.instructions.append(client.instructions)
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                name = direct_name(server, tool.name) if server else tool.name
                if name in self._calls:
                    raise ValueError(f"two tools of this arm are called {name}")
                self._calls[name] = (client, tool.name)
                self.definitions.append(Definition(name, tool.description or "", tool.input_schema))
            cursor = page.next_cursor
            if not cursor:
                return

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> tuple[str, bool]:
        """The text that the model gets, and whether the call failed."""
        if arguments is None:
            return "The arguments are not a JSON object.", True
        if name not in self._calls:
            return f"There is no tool {name}.", True
        client, tool = self._calls[name]
        try:
            result = await client.call_tool(tool, dict(arguments), read_timeout_seconds=SECONDS)
        except Exception as error:  # noqa: BLE001 - what a server does is the arm's own result
            return f"{type(error).__name__}: {error}", True
        return _text(result), bool(result.is_error)


@asynccontextmanager
async def connected(
    arm: str, servers: Mapping[str, Any], sections: Mapping[str, Any], folder: Path
) -> AsyncIterator[HostTools]:
    """An arm with these servers, whose processes end with it; `sections` are of codemode-server's configuration."""
    tools = HostTools()
    async with AsyncExitStack() as stack:
        log = stack.enter_context((folder / "stderr.log").open("w"))
        if arm == "direct":
            for name, entry in servers.items():
                await tools.connect(await _client(stack, entry, log), name)
        else:
            beside = {"direct_tools": {"tools": ["*"]}} if arm.endswith("direct tools") else {}
            await tools.connect(await _client(stack, _product(folder, servers, {**sections, **beside}), log))
        yield tools


def direct_name(server: str, tool: str) -> str:
    """As hosts name it; both wire formats take no other characters."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", f"{server}__{tool}")[:64]


def _product(folder: Path, servers: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of codemode-server itself, with a state of its own; the compiled sandbox is the user's."""
    config = folder / "upstream.yaml"
    config.write_text(json.dumps({"servers": servers, "state": {"dir": str(folder / "product")}, **sections}))
    command = ["-m", "codemode_server", "serve", "--standalone", "--config", str(config)]
    env = {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder / "product")}
    return {"command": sys.executable, "args": command, "env": env}


async def _client(stack: AsyncExitStack, entry: Mapping[str, Any], log: TextIO) -> Client:
    """The server sees the few variables that mcp's client hands on, and not the key of the endpoint."""
    parameters = StdioServerParameters(command=entry["command"], args=entry.get("args", []), env=entry.get("env"))
    return await stack.enter_async_context(Client(stdio_client(parameters, errlog=log), mode="legacy"))


def _text(result: CallToolResult) -> str:
    texts = [it.text if isinstance(it, TextContent) else f"[{it.type}]" for it in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(texts)
