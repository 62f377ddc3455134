"""`codemode-server sources`: a person sees what sessions have read, and forgets it while the product runs. The command
that forgets is another process; upstreams and sandboxes are real.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import pytest
import pytest_asyncio

from codemode_server.cli import run
from tests.attacks.test_flows import flowing
from tests.behaviour.product import Host, for_all, in_memory

from .pseudo_terminal import at_terminal, without_terminal

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

READS = "from servers import bank, web\nbank.read()\nweb.read()\n"
POST = "from servers.board import post\npost(text='hello')\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    async with for_all(in_memory(flowing(tmp_path_factory.mktemp("flows")), mode="legacy")) as host:
        yield host


def command(host: Host, *arguments: str) -> list[str]:
    return ["sources", *arguments, "--config", str(host.folder / "upstream.yaml")]


async def sources(host: Host, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capfd.readouterr()
    assert await anyio.to_thread.run_sync(run, command(host, "list", "--json")) == 0
    found: list[dict[str, Any]] = json.loads(capfd.readouterr().out)
    return found


async def is_posted(host: Host) -> bool:
    answer = await host.run(POST)
    assert answer.content["status"] == "succeeded" or "public_sinks" in answer.text
    return bool(answer.content["status"] == "succeeded")


async def test_the_list_shows_what_each_session_has_read(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    assert await is_posted(host), "control: the session has read nothing private"
    await host.run(READS)
    (session,) = await sources(host, capfd)
    read = [(it["server"], it["labels"]) for it in session["sources"]]
    assert read == [("board", ["public-sink"]), ("bank", ["private"]), ("web", ["untrusted"])]
    assert await anyio.to_thread.run_sync(run, command(host)) == 0
    assert "  bank.read: private\n" in capfd.readouterr().out


async def test_only_a_person_at_a_terminal_forgets(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    await host.run(READS)
    ran = await anyio.to_thread.run_sync(without_terminal, _program(host, "forget"))
    assert (ran.returncode, "needs a person at a terminal" in ran.stderr) == (2, True)
    assert not await is_posted(host)
    assert await sources(host, capfd) != []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
async def test_the_running_product_forgets_at_once_and_what_is_read_afterwards_counts_again(
    host: Host, capfd: pytest.CaptureFixture[str]
) -> None:
    await host.run(READS)
    assert not await is_posted(host), "control"
    (session,) = await sources(host, capfd)
    shown = await anyio.to_thread.run_sync(at_terminal, _program(host, "forget", session["session"]))
    assert "web.read: untrusted" in shown
    assert f"forgotten: {session['session']}" in shown
    assert await sources(host, capfd) == []
    assert await is_posted(host)
    await host.run(READS)
    assert not await is_posted(host)
    (again,) = await sources(host, capfd)
    assert [it["server"] for it in again["sources"]] == ["board", "bank", "web"], "it is stored again, too"


def _program(host: Host, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "codemode_server", *command(host, *arguments)]


WRITES = READS + "open('/workspace/notes.txt', 'w').write('what was read')\n"


async def workspace_sources(host: Host, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found = await sources(host, capfd)
    return next((it["sources"] for it in found if it["session"] == "workspace"), [])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
async def test_cleaning_the_workspace_ends_what_it_carried_to_other_sessions(
    host: Host, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where a person at a terminal does it; until then the list says which session and which files are behind it."""
    await host.run(WRITES)
    (bank,) = [it for it in await workspace_sources(host, capfd) if it["server"] == "bank"]
    (session,) = [
        it["session"] for it in await sources(host, capfd) if it["session"] not in ("workspace", "session logs")
    ]
    assert (bank["read_by"], bank["files"]) == ([session], ["notes.txt"])
    assert await anyio.to_thread.run_sync(run, command(host)) == 0
    assert f"bank.read: private (read by session {session}, written after " in capfd.readouterr().out
    clean = [sys.executable, "-m", "codemode_server", "workspace", "clean"]
    config = ["--config", str(host.folder / "upstream.yaml")]
    ran = await anyio.to_thread.run_sync(without_terminal, [*clean, "--yes", *config])
    assert "still counts as read: `codemode-server sources forget workspace` ends that" in ran.stdout
    assert await workspace_sources(host, capfd) != []
    await host.run(WRITES)
    shown = await anyio.to_thread.run_sync(at_terminal, [*clean, *config])
    assert "it may hold what these have returned:\r\n" in shown
    assert "  bank.read: private\r\n" in shown
    assert await workspace_sources(host, capfd) == []
