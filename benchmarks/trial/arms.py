"""The arms of `benchmarks.tasks` for a model that is free in what it calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TextIO

from benchmarks.tasks.arms import Deferred, opened
from benchmarks.tasks.sessions import Request, Session
from benchmarks.tasks.task import Task as ReferenceTask
from benchmarks.trial.task import Opened, Task


def connected(arm: str, task: Task, state: Opened, log: TextIO) -> AbstractAsyncContextManager[Session]:
    """An arm before the servers of a task; their processes, which don't see the endpoint's key, end with it."""
    servers = {name: {"env": {}, **entry} for name, entry in state.servers.items()}
    return opened(arm, _arms_task(task, state), state.place, log, servers)


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
    if isinstance(session, Deferred) and name == "tool_search" and not answer.is_error:
        return _load(session, answer.text), False
    return answer.text, answer.is_error


def _load(session: Deferred, found: str) -> str:
    """Define what a search has found from the next request on, as hosts do; the model gets the names."""
    loaded = [json.loads(line) for line in found.splitlines()]
    known = {it["name"] for it in session.definitions}
    session.definitions += [it for it in loaded if it["name"] not in known]
    return f"Loaded: {', '.join(it['name'] for it in loaded)}"


def _arms_task(task: Task, state: Opened) -> ReferenceTask:
    """What an arm asks of a task: its servers, and what is forbidden."""
    return ReferenceTask(
        name=task.name,
        shape="chain",
        prompt=task.messages[0],
        servers=tuple(state.servers),
        expected=task.expected,
        needed=task.needed,
        search="",
        direct=(),
        programs=(),
        answer="",
        check=lambda _place, _answer: None,
        wrong={},
        permissions=task.permissions,
    )
