"""The product on the real servers' world: calls through its gateway, programs through its sandbox."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client

from benchmarks.result_types.world import World, configuration, make_world
from codemode_server.app import App
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.config import load
from codemode_server.config.live import RequestContext
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.sandbox.contract import Reply

_SETTLE_SECONDS = 120


class ProgramFailed(Exception):
    """Raised when a program did not come to its end; the message is what the model got."""


@dataclass
class Product:
    """A running product with all servers ready, and a client of it."""

    app: App
    client: Client
    world: World
    calls: ExecutionCalls

    @property
    def catalog(self) -> Catalog:
        return self.app.catalog()

    def tool(self, server: str, name: str) -> Tool:
        """As of now, by the server's name and the tool's raw or Python name."""
        return self.catalog.server(server).tool(name)

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        """One call as a program makes it, through the gateway; places in the arguments are filled in."""
        return await self.app.gateway.call(self.calls, server, tool, self.world.filled(arguments))

    async def execute(self, code: str) -> tuple[dict[str, Any], str]:
        """Run a program, its places filled in; gives the structured content and the text that the model gets."""
        arguments = {"code": self.world.filled(code)}
        result = await self.client.call_tool("execute_code", arguments, read_timeout_seconds=120)
        return result.structured_content or {}, "\n".join(getattr(block, "text", "") for block in result.content)

    async def run(self, code: str) -> tuple[Any, str]:
        """Run a program that has to come to its end; gives its value and the text.

        Raises:
            ProgramFailed: it did not.
        """
        content, text = await self.execute(code)
        if content.get("status") != "succeeded":
            raise ProgramFailed(text)
        return content.get("value"), text


@asynccontextmanager
async def product(folder: Path, *, learns: bool = True) -> AsyncIterator[Product]:
    """The product on a new world in `folder`; it learns types unless told not to.

    Raises:
        scripts.npm.Unavailable: the servers can't be installed here.
    """
    world = make_world(folder)
    async with App.open(load(configuration(world, learns=learns))) as app, Client(app.front) as client:
        await client.list_tools()
        app.connect()
        await app.pool.wait_settled(_SETTLE_SECONDS)
        execution = ExecutionId("proof")
        context = RequestContext.of(Session("proof"), app.config)
        await app.stores.journal.begin_execution(
            ExecutionRecord(
                execution,
                context.principal,
                context.session,
                IsolationLevel.WASM,
                ExecutionStatus.RUNNING,
                time.time(),
            )
        )
        yield Product(app, client, world, ExecutionCalls(execution, context))
