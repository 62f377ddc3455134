"""`serve --http`, from the outside: the real `mcp.Client` over loopback, and what must not get in.

The product is a process of its own, as a user starts it; its upstreams and sandbox are real.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.errors import SettingsError
from codemode_server.startup.serve import serve
from tests.answering import free_port
from tests.hosts.kit import (
    ROOT,
    Mode,
    Served,
    configured,
    descendants,
    forked_product,
    http_host,
    posted,
    processes,
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
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "everybody needs a token. Make one with: codemode-server tokens create PRINCIPAL" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_soon_with_all_it_started(tmp_path: Path, number: signal.Signals) -> None:
    """In the middle of a program, whose host is told."""
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
            os.kill(served.process.pid, number)
            assert await anyio.to_thread.run_sync(served.process.wait, 10) == 128 + number
            running = {process.pid for process in processes()}
            assert [process for process in started if process.pid in running] == []
        assert answers == ["cancelled"]
