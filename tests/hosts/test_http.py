"""`serve --http`, from the outside: the real `mcp.Client` over loopback, and what must not get in.

The product is a process of its own, as a user starts it; its upstreams and sandbox are real.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest

from codemode_server.domain.errors import SettingsError
from codemode_server.startup.serve import serve
from tests.answering import free_port
from tests.behaviour.product import Answer, configuration
from tests.behaviour.test_input_requests import ASK_CITY, asking
from tests.database import rows
from tests.hosts.kit import (
    ROOT,
    Mode,
    Served,
    approved,
    configured,
    descendants,
    forked_product,
    http_host,
    posted,
    processes,
    reached,
    serving,
    until,
)

pytestmark = pytest.mark.slow

EACH_ERA = pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
LIST_ISSUES = """
from servers.github import list_issues
[issue["number"] for issue in list_issues(repo="shop") if issue["state"] == "open"]
"""
STAY = """
import asyncio
from servers.slack import get_channel_history
get_channel_history(channel="C1")
await asyncio.sleep(50)
"""
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}


@EACH_ERA
async def test_a_program_runs_in_both_eras(tmp_path: Path, mode: Mode, version: str) -> None:
    with serving(configured(tmp_path, "github")) as served:
        async with http_host(served, tmp_path, mode) as connected:
            await connected.settled()
            assert connected.client.protocol_version == version
            assert (await connected.run(LIST_ISSUES)).value == [1, 3, 5]
            assert connected.reached() == [{"tool": "list_issues", "repo": "shop", "state": None}]


def test_pages_and_names_of_elsewhere_are_refused(tmp_path: Path) -> None:
    """DNS rebinding: a page in the user's browser reaches loopback under a name of its own.
    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning"""
    with serving(configured(tmp_path, "github")) as served:
        assert status(served) == 200
        assert status(served, Origin=f"http://127.0.0.1:{served.port}") == 200
        assert status(served, Origin="https://evil.example") == 403
        assert status(served, Origin="null") == 403
        assert status(served, Origin=f"http://127.0.0.1.evil.example:{served.port}") == 403
        assert status(served, Host=f"evil.example:{served.port}") == 421
        assert status(served, Host="evil.example") == 421


def status(served: Served, **headers: str) -> int:
    """How an initialize request with these headers is answered."""
    return posted(served, "initialize", INITIALIZE, *headers.items())


@pytest.mark.parametrize(
    "address", ["example.com:80", "127.0.0.1", ":8765", "127.0.0.1:99999", "[::1:80", "1.2.3:80", "nonsense"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"--http {address!r}: give ADDRESS:PORT with an IP address")):
        serve(configured(tmp_path, "github"), address)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_for_others_is_refused_where_nobody_has_a_token(tmp_path: Path, host: str) -> None:
    address, path = f"{host}:{free_port()}", configured(tmp_path, "github")
    done = subprocess.run(
        (*forked_product(), "serve", "--http", address, "--config", str(path)),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "everybody needs a token. Make one with: codemode-server tokens create PRINCIPAL" in done.stderr


@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]], ids=["SIGINT", "twice"])
async def test_a_signal_ends_it_soon_with_all_it_started(tmp_path: Path, numbers: list[signal.Signals]) -> None:
    """In the middle of a program, whose host is told. After SIGTERM it drains, until another comes."""
    with serving(configured(tmp_path, "github", "slack"), is_forked=False) as served:
        async with http_host(served, tmp_path, "legacy") as connected, anyio.create_task_group() as tasks:
            await connected.settled()
            answers: list[str] = []

            async def stay() -> None:
                answers.append((await connected.run(STAY)).content["status"])

            tasks.start_soon(stay)
            await anyio.to_thread.run_sync(until, lambda: connected.reached("get_channel_history"))
            started = descendants(served.process.pid)
            upstreams = [process for process in started if str(tmp_path) in process.command]
            assert len(upstreams) == 2
            assert len(started) > len(upstreams), "the sandbox's workers are processes too"
            for number in numbers:
                os.kill(served.process.pid, number)
                await anyio.sleep(0.5)
            assert await anyio.to_thread.run_sync(served.process.wait, 60) == 128 + numbers[-1]
            pids = {process.pid for process in started}
            await anyio.to_thread.run_sync(until, lambda: pids.isdisjoint(it.pid for it in processes()))
        assert answers == ["cancelled"]


SLOW = """
import asyncio
from servers.slack import get_channel_history
get_channel_history(channel="C1")
await asyncio.sleep(3)
get_channel_history(channel="C2")
"done"
"""
ASKS = "from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='t')['number']"


def readiness(served: Served) -> tuple[int, str]:
    try:
        answer = httpx2.get(f"http://127.0.0.1:{served.port}/readyz")
    except httpx2.TransportError:
        return 0, ""
    return answer.status_code, answer.text


async def test_it_drains_after_sigterm(tmp_path: Path) -> None:
    """What runs ends by itself and is answered, what waits for a person is suspended and goes on in the next server,
    and nothing new begins."""
    asks: dict[str, Any] = {"rules": [{"ask": "github/create_issue"}]}
    path = configured(tmp_path, "github", "slack", permissions=asks, approvals={"browser": "never"})
    answers: dict[str, Answer] = {}
    with serving(path, is_forked=False) as served:
        async with http_host(served, tmp_path, "legacy") as one, http_host(served, tmp_path, "legacy") as other:
            await one.settled()
            until(lambda: readiness(served) == (200, "ok\n"))

            async def run(name: str, code: str) -> None:
                answers[name] = await one.run(code)

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, "slow", SLOW)
                    tasks.start_soon(run, "asks", ASKS)
                    await anyio.to_thread.run_sync(until, lambda: one.reached("get_channel_history"))
                    await anyio.to_thread.run_sync(until, lambda: rows(tmp_path / "state", "SELECT 1 FROM approvals"))
                    os.kill(served.process.pid, signal.SIGTERM)
                    await anyio.to_thread.run_sync(until, lambda: readiness(served) == (503, "draining\n"))
                    while (refused := await other.run("1")).text == "value:\n1":
                        pass  # for a second, as what was accepted before
                    assert posted(served, "initialize", INITIALIZE) == 503
                    assert await anyio.to_thread.run_sync(served.process.wait, 60) == 0
    assert "shutting down, and nothing of this ran" in refused.text
    assert answers["slow"].value == "done"
    waiting = answers["asks"].content
    assert waiting["status"] == "waiting"
    assert [call["tool"] for call in reached(tmp_path)] == ["get_channel_history"] * 2
    with serving(path) as served:
        async with http_host(served, tmp_path, "legacy") as one:
            await one.settled()
            assert await approved(tmp_path) == 1, "the question has outlived the server"
            assert (await one.call("execute_code", resume=waiting["execution_id"])).value == 1
    assert [call["tool"] for call in reached(tmp_path)][2:] == ["create_issue"]


async def test_a_program_whose_server_asks_for_input_is_suspended_by_sigterm(tmp_path: Path) -> None:
    is_asked = anyio.Event()

    async def never(_context: Any, _params: Any) -> types.ElicitResult:
        is_asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    with serving(configuration(tmp_path, asking(tmp_path, "modern")), is_forked=False) as served:
        async with http_host(served, tmp_path, "legacy", callbacks={"elicitation_callback": never}) as one:
            code = f"from servers.asking import ask\nask(requests=[{ASK_CITY!r}])"
            async with one.running(code) as answers:
                with anyio.fail_after(60):
                    await is_asked.wait()
                os.kill(served.process.pid, signal.SIGTERM)
                assert await anyio.to_thread.run_sync(served.process.wait, 60) == 0
    assert answers[0].content["status"] == "waiting"
    assert f"resume={answers[0].content['execution_id']!r}" in answers[0].text


async def test_what_runs_longer_than_the_drain_is_ended_and_can_be_resumed(tmp_path: Path) -> None:
    path = configured(tmp_path, "slack", http={"drain_seconds": 1.0})
    with serving(path, is_forked=False) as served:
        async with http_host(served, tmp_path, "auto") as one:
            await one.settled()
            async with one.running(STAY) as answers:
                await anyio.to_thread.run_sync(until, lambda: one.reached("get_channel_history"))
                os.kill(served.process.pid, signal.SIGTERM)
                assert await anyio.to_thread.run_sync(served.process.wait, 60) == 0
    assert answers[0].content["status"] == "cancelled"
    assert f"execute_code(resume={answers[0].content['execution_id']!r})" in answers[0].text
