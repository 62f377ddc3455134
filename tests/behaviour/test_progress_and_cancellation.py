"""While a program runs the host hears of it; when the host lets go, the program and its calls in flight end."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.model import Session

from .product import configuration, in_memory, office

WAIT = "from servers.slow import wait\nwait(seconds={seconds})"


async def test_a_running_program_is_reported_and_the_progress_grows(tmp_path: Path) -> None:
    heard: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    code = "from servers.slow import wait\nwait(seconds=0.1)\nwait(seconds=2.5)"
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"))) as host:
        await host.client.call_tool("execute_code", {"code": code}, progress_callback=listen)
    values = [value for value, _ in heard]
    assert values == sorted(set(values))
    assert any(message and "slow.wait" in message for _, message in heard)


async def test_a_cancelled_request_ends_the_program_and_its_call_at_the_upstream(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"))) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run, WAIT.format(seconds=60))
            await host.until(lambda: bool(host.reached("wait")))
            tasks.cancel_scope.cancel()
        await host.until(lambda: bool(host.reached("cancelled")))
        assert (await host.run("1 + 1")).value == 2


async def test_a_cancelled_program_that_only_computes_leaves_no_worker_busy(tmp_path: Path) -> None:
    async with App.open(load(configuration(tmp_path, {}))) as app:
        execution = app.executor.start("while True: pass", session=Session("s"))
        app.connect()
        with anyio.fail_after(60):
            while execution.level is None:
                await anyio.sleep(0.01)
        execution.cancel()
        with anyio.fail_after(10):
            await execution.done.wait()
        assert execution.status == "cancelled"


async def test_an_execution_is_recorded_with_its_calls_and_how_it_ended(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        answer = await host.run("from servers.github import list_issues\nlen(list_issues(repo='r'))")
        await host.run("1 / 0")
    database = sqlite3.connect(tmp_path / "state" / "codemode.db")
    assert database.execute("SELECT status, level, calls FROM executions ORDER BY started_at").fetchall() == [
        ("succeeded", "wasm", 1),
        ("failed", "wasm", 0),
    ]
    assert database.execute("SELECT execution_id, server, tool, verdict, status FROM calls").fetchall() == [
        (answer.content["execution_id"], "github", "list_issues", "allow", "succeeded")
    ]
    database.close()
