"""One arm on one task: the processes that a host starts, what the model has, its turns, and what it gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client

from benchmarks.tasks.task import Call, Place, Task
from codemode_server.support.json_values import with_texts_mapped

CALL_SECONDS = 120.0
READY_SECONDS = 120.0


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

    async def missing(self, tools: Sequence[str]) -> list[str]:
        """Which of these tools, `server/tool`, the model can't get to know."""
        raise NotImplementedError

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


def request_of(call: Call) -> Request:
    """The call of a server's own tool."""
    return Request(call.tool.replace("/", "__"), call.arguments)
