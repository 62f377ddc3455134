"""Executions are started, watched and cancelled at the service, as the MCP tool does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.principals import Session
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
