"""Drives the product as a host does: the real `mcp.Client`, in memory or over stdio to a child process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from codemode_server.app import App
from codemode_server.calls.audit import AuditEvent
from codemode_server.config import load
from codemode_server.domain.approvals import Approval, ApprovalAnswer
from tests import fork_server
from tests.waiting import PATIENCE_S

UPSTREAMS = Path(__file__).parent.parent / "example_servers"
T = TypeVar("T")
PLAIN = f"""\
import sys
sys.path.append({str(UPSTREAMS.parents[1])!r})
from tests.example_servers.plain import Call, Server, ToolError
"""
"""The first lines of a script that is an upstream of its own and starts fast."""
OFFICE = ("google_drive", "salesforce", "slack", "github")


@dataclass
class Answer:
    """What a host gets from one tool call."""

    result: CallToolResult

    @property
    def text(self) -> str:
        return "\n".join(getattr(block, "text", "") for block in self.result.content)

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] | None = self.result.structured_content
        assert content is not None, self.text
        return content

    @property
    def value(self) -> Any:
        assert self.content["status"] == "succeeded", self.text
        return self.content.get("value")

    @property
    def error(self) -> dict[str, Any]:
        assert self.content["status"] != "succeeded", self.text
        error: dict[str, Any] = self.content["error"]
        return error


@dataclass
class Host:
    """A connected host."""

    client: Client
    folder: Path

    async def call(self, tool: str, **arguments: Any) -> Answer:
        return Answer(await self.client.call_tool(tool, arguments, read_timeout_seconds=100))

    async def run(self, code: str, **arguments: Any) -> Answer:
        return await self.call("execute_code", code=code, **arguments)

    @asynccontextmanager
    async def running(self, code: str, **arguments: Any) -> AsyncIterator[list[Answer]]:
        """Run a program beside the block, at whose end its answer is awaited; the list gets it once it comes."""
        answers: list[Answer] = []

        async def run() -> None:
            answers.append(await self.run(code, **arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield answers

    def reached(self, tool: str | None = None) -> list[dict[str, Any]]:
        """What reached the upstreams, in order."""
        log = self.folder / "office.log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [line for line in lines if tool in (None, line["tool"])]

    def forget_calls(self) -> None:
        (self.folder / "office.log").unlink(missing_ok=True)

    async def until(self, is_true: Callable[[], bool | Awaitable[bool]], seconds: float = PATIENCE_S) -> None:
        """Wait until something has come true that no event tells of: in another process, or after some requests."""
        with anyio.fail_after(seconds):
            while True:
                answer = is_true()
                if answer is True or (not isinstance(answer, bool) and await answer):
                    return
                await anyio.sleep(0.02)

    async def settled(self) -> str:
        """Wait until no upstream is on its way; gives the listing of the servers."""
        with anyio.fail_after(60):
            while True:
                text = (await self.call("list_dir", path="/servers")).text
                if "connecting" not in text and "waiting" not in text:
                    return text
                await anyio.sleep(0.05)


@dataclass
class Product:
    """A product with one host, and a person who answers questions as another process does: in the store."""

    app: App
    host: Host

    @property
    def folder(self) -> Path:
        return self.host.folder

    async def unanswered(self) -> Sequence[Approval]:
        return await self.app.stores.approvals.unanswered(self.app.principal)

    async def question(self, *besides: Approval) -> Approval:
        """Wait until one is open."""
        found: list[Approval] = []

        async def is_there() -> bool:
            before = {it.approval_id for it in besides}
            found[:] = [it for it in await self.unanswered() if it.approval_id not in before]
            return bool(found)

        await self.host.until(is_there)
        return found[0]

    async def answer(self, approval: Approval, *, is_approved: bool | ApprovalAnswer = True) -> None:
        answer = ApprovalAnswer(is_approved, channel="command") if isinstance(is_approved, bool) else is_approved
        await self.app.stores.approvals.answer(approval.approval_id, answer)

    async def answering(self, *answers: bool | ApprovalAnswer, **arguments: Any) -> tuple[Answer, list[Approval]]:
        """A call of `execute_code` while the person gives these answers; also the questions."""
        given: list[Answer] = []
        asked: list[Approval] = []

        async def execute() -> None:
            given.append(await self.host.call("execute_code", **arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execute)
            for is_approved in answers:
                asked.append(await self.question(*asked))
                await self.answer(asked[-1], is_approved=is_approved)
        return given[0], asked

    async def audited(self, kind: str) -> list[AuditEvent]:
        rows = await self.app.stores.audit.rows(self.app.principal)
        return [row.event for row in rows if row.event.kind == kind]


def configuration(folder: Path, servers: dict[str, Any] | None = None, **sections: Any) -> Path:
    """Write an upstream.yaml with the office servers (or these) and a state folder of its own."""
    if servers is None:
        servers = office(folder)
    sections.setdefault("state", {"dir": str(folder / "state")})
    # What ranks would else depend on what is installed, and on how far a model has been loaded in the background.
    sections.setdefault("search", {"ranker": "lexical"})
    # Most tests read the value and the status of a program; a model gets the text alone.
    sections.setdefault("results", {"structured_content": True})
    path = folder / "upstream.yaml"
    path.write_text(json.dumps({"servers": servers, **sections}))
    return path


def office(folder: Path, *names: str, is_forked: bool = True) -> dict[str, Any]:
    """The office servers; as processes of their own where it is about these."""
    script, environment = UPSTREAMS / "office.py", {"OFFICE_LOG": str(folder / "office.log")}
    return {
        name: {
            **(fork_server.small_upstream(script, name) if is_forked else started(script, name)),
            "env": environment,
        }
        for name in names or OFFICE
    }


def started(script: Path, *arguments: str) -> dict[str, Any]:
    """An upstream that is a process of its own."""
    return {"command": sys.executable, "args": [str(script), *arguments]}


@asynccontextmanager
async def opened(
    path: Path, *, watch: bool = False, mode: str = "auto", **callbacks: Any
) -> AsyncIterator[tuple[App, Host]]:
    """The product in this process, its upstreams and sandboxes as real as ever; `callbacks` are the host's features."""
    async with App.open(load(path), watch=watch) as app, Client(app.front, mode=mode, **callbacks) as client:
        host = Host(client, path.parent)
        await host.settled()
        yield app, host


@asynccontextmanager
async def in_memory(path: Path, **options: Any) -> AsyncIterator[Host]:
    """The same for a test that sees no more than a host does."""
    async with opened(path, **options) as (_, host):
        yield host


def in_memory_for_all(path: Path) -> AbstractAsyncContextManager[Host]:
    """The same for a fixture that several tests share."""
    return for_all(in_memory(path))


@asynccontextmanager
async def for_all(product: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """A product for a fixture that several tests share: a task of its own opens and closes it, as anyio wants it."""
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    async def run() -> None:
        async with product as host:
            opened.set_result(host)
            await ended.wait()

    running = asyncio.create_task(run())
    either: list[asyncio.Future[Any]] = [running, opened]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if opened.done():
        yield opened.result()
    ended.set()
    await running


@asynccontextmanager
async def over_stdio(
    path: Path,
    *,
    mode: str = "auto",
    env: dict[str, str] | None = None,
    flags: Sequence[str] = (),
    is_forked: bool = True,
    **callbacks: Any,
) -> AsyncIterator[Host]:
    """The product as a child process, as a host's configuration starts it; a fork starts in a tenth of the time."""
    arguments = ("-m", "codemode_server", *flags, "--config", str(path))
    command, *args = fork_server.command(*arguments) if is_forked else [sys.executable, *arguments]
    environment = {"CODEMODE_STANDALONE": "1"} | (env or {})
    parameters = StdioServerParameters(command=command, args=args, env=environment)
    async with Client(parameters, mode=mode, **callbacks) as client:
        host = Host(client, path.parent)
        await host.settled()
        yield host


def library(folder: Path, name: str = "library", **settings: Any) -> dict[str, Any]:
    """`library`, or with another `name` one of the others in `library.py`."""
    return {name: fork_server.upstream(str(UPSTREAMS / "library.py"), name, str(folder / f"{name}.log")) | settings}


def asked_of(name: str, folder: Path) -> list[str]:
    """What one of these in this folder was asked for."""
    log = folder / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []
