"""The arms of `benchmarks.tasks` for a model that is free in what it calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TextIO

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from benchmarks.tasks import task as tasks
from benchmarks.tasks.arms import ARMS
from benchmarks.tasks.sessions import Request, Session
from benchmarks.trial.task import Opened, Task


@asynccontextmanager
async def connected(arm: str, task: Task, state: Opened, log: TextIO) -> AsyncIterator[Session]:
    """An arm before the servers of a task; their processes, which don't see the endpoint's key, end with it."""
    session = ARMS[arm](_arms_task(task, state), state.place)
    async with AsyncExitStack() as stack:
        for name, entry in session.configured({name: dict(it) for name, it in state.servers.items()}).items():
            process = stdio_client(StdioServerParameters(**entry), errlog=log)
            client = Client(process, mode="legacy", elicitation_callback=_approve)
            session.clients[name] = await stack.enter_async_context(client)
        await session.prepare()
        yield session


async def call(session: Session, name: str, arguments: Mapping[str, Any] | None) -> tuple[str, bool]:
    """The text that the model gets, and whether the call failed."""
    if arguments is None:
        return "The arguments are not a JSON object.", True
    if name not in {it["name"] for it in session.definitions}:
        return f"There is no tool {name}.", True
    try:
        answer = await session.call(Request(name, dict(arguments)))
    except Exception as error:  # noqa: BLE001 - what a server does is the arm's own result
        return f"{type(error).__name__}: {error}", True
    return answer.text, answer.is_error


def _arms_task(task: Task, state: Opened) -> tasks.Task:
    """What an arm asks of a task: its servers, and what is forbidden."""
    return tasks.Task(
        name=task.name,
        shape="chain",
        prompt=task.messages[0],
        servers=tuple(state.servers),
        expected=task.expected,
        needed=(),
        search="",
        direct=(),
        programs=(),
        answer="",
        check=lambda _place, _answer: None,
        wrong={},
        permissions=task.permissions,
    )


async def _approve(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """The person who says yes, this once."""
    return ElicitResult(action="accept", content={"answer": "yes"})
