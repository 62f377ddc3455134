"""The arms: what a model has at first, how it calls a tool, and the turns of one that makes no mistake.

`opened(arm, task, place)` gives a session with processes of its own: the servers behind the recorder, and the product
before them. `Session.solve` makes the turns of the reference solution.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, TextIO

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from benchmarks.product import configuration
from benchmarks.tasks.servers import entries
from benchmarks.tasks.task import Call, Place, Task
from codemode_server.support.json_values import with_texts_mapped

CALL_SECONDS = 120.0
READY_SECONDS = 60.0
DENIED = "The user has denied this tool."


@dataclass(frozen=True)
class Request:
    """A call as the model makes it."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model gets from a call."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Turn:
    """One message of the model with calls that are made at once, and what it gets."""

    requests: Sequence[Request]
    answers: Sequence[Answer]


@dataclass
class Session:
    """One arm on one task. Texts and arguments name the data as `/data`."""

    task: Task
    place: Place
    clients: dict[str, Client] = field(default_factory=dict)
    """By server; a product is the only one, with an empty name."""
    definitions: list[dict[str, Any]] = field(default_factory=list)
    """The tools that the model has at first: `name`, `description`, `inputSchema`."""
    instructions: str = ""
    turns: list[Turn] = field(default_factory=list)
    tool_seconds: float = 0.0
    """How long the model waited for the answers to its turns."""
    recall: float | None = None
    """Share of the needed tools that the first search found; None without a search."""

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The processes that the host starts, by the name of the server."""
        return servers

    async def prepare(self) -> None:
        """Wait until every server can be called, and read what the model has at first."""
        for server, client in self.clients.items():
            prefix = f"{server}__" if server else ""
            self.definitions += [
                {"name": f"{prefix}{tool.name}", "description": tool.description, "inputSchema": tool.input_schema}
                for tool in (await client.list_tools()).tools
            ]
        self.instructions = "\n".join(filter(None, (client.instructions for client in self.clients.values())))

    async def solve(self) -> str:
        """Make the turns of the reference solution; the answer."""
        raise NotImplementedError

    async def attempt(self, call: Call) -> None:
        """Try a call that the person has forbidden, in the way of this arm; outside of what is counted."""
        raise NotImplementedError

    async def call(self, request: Request) -> Answer:
        """One call of the model's, which counts as no turn."""
        server, _, name = request.name.rpartition("__") if "" not in self.clients else ("", "", request.name)
        arguments = with_texts_mapped(request.arguments, self.place.real)
        result = await self.clients[server].call_tool(name, arguments, read_timeout_seconds=CALL_SECONDS)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        return Answer(self.place.shown(text), bool(result.is_error))

    async def turn(self, *requests: Request) -> list[Answer]:
        """The answers to calls that are made at once, in the order of the calls."""
        answers: dict[int, Answer] = {}

        async def answer(number: int) -> None:
            answers[number] = await self.call(requests[number])

        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(len(requests)):
                group.start_soon(answer, number)
        self.tool_seconds += time.perf_counter() - started
        self.turns.append(Turn(requests, [answers[number] for number in range(len(requests))]))
        return list(self.turns[-1].answers)


class Direct(Session):
    """The servers' own tools, all defined from the start."""

    async def solve(self) -> str:
        for calls in self.task.direct:
            await self.turn(*map(request_of, calls))
        return self.task.answer

    async def attempt(self, call: Call) -> None:
        await self.call(request_of(call))

    async def call(self, request: Request) -> Answer:
        """A host can deny whole tools, and asks the person before others; who says yes."""
        tool = request.name.replace("__", "/")
        if any(fnmatch(tool, rule["deny"]) for rule in self.task.permissions.get("rules", ()) if set(rule) == {"deny"}):
            return Answer(DENIED, is_error=True)
        return await super().call(request)


class CodeMode(Session):
    """codemode-server before the servers, with its own defaults but for rules and a backend that every machine has."""

    def configured(self, servers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        sections = {"permissions": dict(self.task.permissions), "sandbox": {"backend": "wasm"}}
        config = configuration(self.place.folder.parent, servers, **sections)
        arguments = ["-m", "codemode_server", "serve", "--standalone", "--config", str(config)]
        return {"": {"command": sys.executable, "args": arguments}}

    async def prepare(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            listed = (await self.call(Request("list_dir", {"path": "/servers"}))).text
            if all(re.search(rf"^{server}/ .* · [1-9]\d* tools", listed, re.MULTILINE) for server in self.task.servers):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(listed)
            await anyio.sleep(0.1)
        await super().prepare()

    async def solve(self) -> str:
        await self.discover()
        answer = Answer("")
        for program in self.task.programs:
            (answer,) = await self.turn(Request("execute_code", {"code": program}))
        return self.task.answer if self.task.is_judged else answer.text

    async def discover(self) -> None:
        """Search for tools whose arguments the description does not show, and read those that the search missed."""
        known = "\n".join(str(each["description"]) for each in self.definitions)
        if all(is_shown(tool, known) for tool in self.task.needed):
            return
        (found,) = await self.turn(Request("search_tools", {"query": self.task.search}))
        missed = [tool for tool in self.task.needed if not is_shown(tool, found.text)]
        self.recall = 1 - len(missed) / len(self.task.needed)
        if missed:
            paths = ", ".join(f"servers/{tool}.py" for tool in missed)
            await self.turn(Request("read_tool", {"path": paths}))

    async def attempt(self, call: Call) -> None:
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        program = f"from servers.{call.server} import {call.name}\n{call.name}({arguments})"
        await self.call(Request("execute_code", {"code": program}))


ARMS: dict[str, type[Session]] = {"direct": Direct, "codemode-server": CodeMode}


def request_of(call: Call) -> Request:
    return Request(call.tool.replace("/", "__"), call.arguments)


def is_shown(tool: str, text: str) -> bool:
    """A search or a description shows how to call a tool of a server."""
    server, _, name = tool.partition("/")
    blocks = re.split(r"^(?=from servers\.)", text, flags=re.MULTILINE)
    return any(
        block.startswith(f"from servers.{server} import") and re.search(rf"^  {name}\(", block, re.MULTILINE)
        for block in blocks
    )


@asynccontextmanager
async def opened(arm: str, task: Task, place: Place, log: TextIO) -> AsyncIterator[Session]:
    """A session that can call every server of the task; what processes say on stderr goes to `log`.

    Raises:
        Unavailable: PyPI or npm can't be had.
    """
    session = ARMS[arm](task, place)
    async with AsyncExitStack() as stack:
        for name, entry in session.configured(entries(place, task.servers)).items():
            process = stdio_client(StdioServerParameters(**entry), errlog=log)
            client = Client(process, mode="legacy", elicitation_callback=_approve)
            session.clients[name] = await stack.enter_async_context(client)
        await session.prepare()
        yield session


async def _approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """The person who says yes, this once."""
    return ElicitResult(action="accept", content={"answer": "yes"})
