"""Executions are started, watched and cancelled at the service, as the MCP tool does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import RequestContext
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.executions.events import (
    ExecutionCallBegan,
    ExecutionCallEnded,
    ExecutionEvent,
    ExecutionSettled,
    ExecutionStarted,
    Subscriptions,
)
from tests.behaviour.product import configuration, office


@asynccontextmanager
async def product(folder: Path, *servers: str) -> AsyncIterator[tuple[App, RequestContext]]:
    async with App.open(load(configuration(folder, office(folder, *servers) if servers else {}))) as app:
        app.connect()
        yield app, RequestContext.of(Session("s"), app.config)


async def test_an_execution_goes_on_while_nobody_waits_until_it_is_cancelled(tmp_path: Path) -> None:
    async with product(tmp_path) as (app, context):
        execution = app.executions.start("import time; time.sleep(60)", context)
        with anyio.move_on_after(0.2):
            await execution.done.wait()
        assert not execution.done.is_set()
        await app.executions.cancel(execution.execution_id)
        assert execution.status is ExecutionStatus.CANCELLED
        with pytest.raises(MetaToolError):
            app.executions.subscribe(execution.execution_id)


async def test_whoever_subscribes_sees_its_calls_and_its_end(tmp_path: Path) -> None:
    async with product(tmp_path, "github") as (app, context):
        code = "from servers.github import list_issues\nlen(list_issues(repo='a'))"
        execution = app.executions.start(code, context)
        with anyio.fail_after(120):
            events = [event async for event in app.executions.subscribe(execution.execution_id)]
    kinds = [type(event) for event in events]
    assert kinds[-4:] == [ExecutionStarted, ExecutionCallBegan, ExecutionCallEnded, ExecutionSettled]
    assert events[-1] == ExecutionSettled(execution.execution_id, ExecutionStatus.SUCCEEDED)


async def test_a_slow_subscriber_holds_nothing_up_and_gets_the_end() -> None:
    subscriptions, name = Subscriptions(), ExecutionId("x1")
    stream = subscriptions.open(name)
    for _ in range(5_000):
        subscriptions.publish(ExecutionStarted(name))
    subscriptions.publish(ExecutionSettled(name, ExecutionStatus.SUCCEEDED))
    events: list[ExecutionEvent] = [event async for event in stream]
    assert len(events) == 1_000
    assert events[-1] == ExecutionSettled(name, ExecutionStatus.SUCCEEDED)
