"""Executions are started, watched and cancelled at the service, as the MCP tool does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.principals import Session
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayers
from tests.behaviour.product import configuration, office


@asynccontextmanager
async def product(folder: Path, *servers: str) -> AsyncIterator[tuple[App, Caller]]:
    async with App.open(load(configuration(folder, office(folder, *servers) if servers else {}))) as app:
        app.connect()
        yield app, Caller.of(Session("s"), app.config)


async def test_an_execution_goes_on_while_nobody_waits_until_it_is_cancelled(tmp_path: Path) -> None:
    async with product(tmp_path) as (app, context):
        execution = app.executions.start("import time; time.sleep(60)", context)
        with anyio.move_on_after(0.2):
            await execution.done.wait()
        assert not execution.done.is_set()
        await app.executions.cancel(execution.execution_id)
        assert execution.status is ExecutionStatus.CANCELLED


async def test_the_next_program_waits_for_what_follows_an_answer_of_its_own_session_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = anyio.Event(), anyio.Event()

    async def after(_: ExecutionLayers, execution: Execution) -> None:
        if execution.session.session_id == "s":
            has_begun.set()
            await may_end.wait()

    monkeypatch.setattr(ExecutionLayers, "after", after)
    async with product(tmp_path) as (app, context):
        first = app.executions.start("1", context)
        await first.done.wait()
        await has_begun.wait()
        other = Caller.of(Session("other"), app.config)
        await app.executions.start("1", other).done.wait()
        second, next_one = app.executions.start("2", other), app.executions.start("3", context)
        with anyio.move_on_after(60):
            await second.done.wait()
        had_ended = second.done.is_set(), next_one.done.is_set()
        may_end.set()
        await next_one.done.wait()
    assert had_ended == (True, False)
    assert next_one.outcome.value == 3
