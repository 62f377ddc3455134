"""`serve --http`, from the outside: the real `mcp.Client` over loopback, and what must not get in.

The product is a process of its own, as a user starts it; its upstreams and sandbox are real.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import Client, MCPError
from mcp.types import CallToolResult

from tests.hosts.kit import PRODUCT, ROOT, configured, descendants, processes, reached, serving

pytestmark = pytest.mark.slow

EACH_ERA = pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
LIST_ISSUES = """
from servers.github import list_issues
[issue["number"] for issue in list_issues(repo="shop") if issue["state"] == "open"]
"""
MEET = """
import asyncio, pathlib
pathlib.Path("/workspace/{mine}").write_text("here")
while not pathlib.Path("/workspace/{other}").exists():
    await asyncio.sleep(0.05)
"{mine} met {other}"
"""
STAY = """
import asyncio
from servers.slack import get_channel_history
get_channel_history(channel="C1")
await asyncio.sleep(50)
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}


async def run(client: Client, code: str) -> CallToolResult:
    return await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=60)


@EACH_ERA
async def test_a_program_runs_in_both_eras(tmp_path: Path, mode: str, version: str) -> None:
    with serving(configured(tmp_path)) as served:
        async with Client(served.url, mode=mode) as client:
            assert client.protocol_version == version
            result = await run(client, LIST_ISSUES)
    assert result.structured_content is not None, result
    assert result.structured_content["value"] == [1, 3, 5], result
    assert reached(tmp_path) == [{"tool": "list_issues", "repo": "shop", "state": None}]


async def test_two_clients_are_served_at_once(tmp_path: Path) -> None:
    """One of each era; either program ends only once it has seen the other run."""
    values = {}

    async def meet(url: str, mode: str, mine: str, other: str) -> None:
        async with Client(url, mode=mode) as client:
            values[mine] = (await run(client, MEET.format(mine=mine, other=other))).structured_content

    with serving(configured(tmp_path)) as served:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(meet, served.url, "auto", "ada", "bob")
            tasks.start_soon(meet, served.url, "legacy", "bob", "ada")
    assert {name: (value or {}).get("value") for name, value in values.items()} == {
        "ada": "ada met bob",
        "bob": "bob met ada",
    }


async def test_pages_and_names_of_elsewhere_are_refused(tmp_path: Path) -> None:
    """DNS rebinding: a page in the user's browser reaches loopback under a name of its own.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
    """
    with serving(configured(tmp_path)) as served:
        accepts = {"accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(headers=accepts, trust_env=False) as browser:

            async def answered(**headers: str) -> int:
                return (await browser.post(served.url, json=INITIALIZE, headers=headers)).status_code

            assert await answered() == 200
            assert await answered(origin=f"http://127.0.0.1:{served.port}") == 200
            assert await answered(origin="https://evil.example") == 403
            assert await answered(origin="null") == 403
            assert await answered(origin=f"http://127.0.0.1.evil.example:{served.port}") == 403
            assert await answered(host=f"evil.example:{served.port}") == 421
            assert await answered(host="evil.example") == 421


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "[::]:8765", "example.com:80", "127.0.0.1", ":8765", "127.0.0.1:99999", "nonsense"]
)
def test_an_address_for_others_or_none_is_refused(tmp_path: Path, address: str) -> None:
    """Without authentication other machines are not served, whatever is asked for."""
    refused = subprocess.run(
        (*PRODUCT, "serve", "--http", address, "--config", str(configured(tmp_path))),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"codemode-server: --http {address!r}: give 127.0.0.1:PORT. There is no authentication, so other machines are "
        "not served; put a proxy that authenticates in front if they must be.\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_soon_with_all_it_started(tmp_path: Path, number: signal.Signals) -> None:
    """In the middle of a program, with the host connected."""
    with serving(configured(tmp_path)) as served:
        async with Client(served.url, mode="legacy") as client, anyio.create_task_group() as tasks:

            async def stay() -> None:
                with pytest.raises(MCPError):
                    await run(client, STAY)

            tasks.start_soon(stay)
            with anyio.fail_after(30):
                while not reached(tmp_path):  # noqa: ASYNC110 - of a file nothing tells
                    await anyio.sleep(0.02)
            started = descendants(served.process.pid)
            upstreams = [process for process in started if str(tmp_path) in process.command]
            assert len(upstreams) == 4
            assert len(started) > len(upstreams), "the sandbox's workers are processes too"
            before = time.monotonic()
            os.kill(served.process.pid, number)
            assert await anyio.to_thread.run_sync(served.process.wait, 10) == 128 + number
            assert time.monotonic() - before < 3
            running = {process.pid for process in processes()}
            assert [process for process in started if process.pid in running] == []
