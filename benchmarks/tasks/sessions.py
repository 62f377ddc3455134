"""One arm on one task: the processes that a host starts, what the model has, its turns, and what it gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client

from benchmarks.tasks.task import Call, Place, Task, program_of
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

    async def turns_of(self, turns: Sequence[Sequence[Call]]) -> None:
        """Turns of calls of the servers' own tools."""
        for calls in turns:
            await self.turn(*map(request_of, calls))


class Programs(Session):
    """An arm that calls tools in programs: search, read the definitions that the search does not show, run."""

    execute = "execute_code"
    """Names of the product's tools."""
    search: str
    defines_what_it_finds = True
    """False if a search gives names only."""

    async def unready(self) -> Sequence[str]:
        """What can't be called yet; empty once all can be."""
        return await self.missing(self.task.needed)

    def translated(self, program: str) -> str:
        """One of our programs, in the form of this product."""
        return program

    def is_found(self, tool: str, text: str) -> bool:
        """True if a tool is in what a search has found."""
        raise NotImplementedError

    def is_defined(self, tool: str, text: str) -> bool:
        """True if the arguments of a tool are in the descriptions that the model has at first."""
        return self.is_found(tool, text)

    def reading(self, tools: Sequence[str]) -> Request:
        """The request that reads the definitions of tools."""
        raise NotImplementedError

    async def prepare(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while unready := await self.unready():
            if time.monotonic() > deadline:
                raise TimeoutError(", ".join(unready))
            await anyio.sleep(0.1)
        await super().prepare()

    async def solve(self) -> str:
        await self.discover()
        answer = Answer("")
        for program in self.programs():
            (answer,) = await self.turn(Request(self.execute, {"code": self.translated(program)}))
        return self.task.answer if self.task.is_judged else answer.text

    def programs(self) -> Sequence[str]:
        return self.task.programs

    async def discover(self) -> None:
        """Search for tools whose arguments the description does not show, and read those that the search missed."""
        known = "\n".join(str(each["description"]) for each in self.definitions)
        if all(self.is_defined(tool, known) for tool in self.task.needed):
            return
        (found,) = await self.turn(Request(self.search, {"query": self.task.search}))
        missed = [tool for tool in self.task.needed if not self.is_found(tool, found.text)]
        self.recall = 1 - len(missed) / len(self.task.needed)
        if unread := missed if self.defines_what_it_finds else self.task.needed:
            await self.turn(self.reading(unread))

    async def attempt(self, call: Call) -> None:
        await self.call(Request(self.execute, {"code": self.translated(program_of([call]))}))


def request_of(call: Call) -> Request:
    """The call of a server's own tool."""
    return Request(call.tool.replace("/", "__"), call.arguments)
