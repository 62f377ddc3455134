"""The product with its record on PostgreSQL: the same as on SQLite, and while the server is gone nothing is sent.

A real server, and the product as a host sees it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from codemode_server.cli import run
from tests.attacks.test_flows import flowing
from tests.behaviour.product import configuration, in_memory, office, opened
from tests.storage.postgres import Cluster

CREATES = "from servers.github import create_issue\ncreate_issue('acme', 'web', 'Broken')['number']"
READS = "from servers.github import list_issues\nlen(list_issues('web'))"


@pytest.fixture
def server(postgres: Cluster) -> Iterator[Cluster]:
    yield postgres
    postgres.stop()
    postgres.start()


@pytest.fixture
def path(server: Cluster, tmp_path: Path) -> Path:
    state = {"dir": str(tmp_path / "state"), "database": server.database().url}
    return configuration(tmp_path, office(tmp_path, "github"), permissions={"default": "allow"}, state=state)


async def test_programs_and_calls_are_recorded_and_shown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with in_memory(path) as host:
        assert (await host.run("1 + 1")).value == 2
        assert (await host.run(READS)).value > 0
        assert (await host.run(CREATES)).value > 0
        assert (await host.call("search_tools", query="create an issue")).text
    assert not list((path.parent / "state").glob("codemode.db*"))
    capsys.readouterr()
    for line in ("executions list", "audit show", "audit verify", "stats", "doctor --no-boot", "approvals"):
        assert await anyio.to_thread.run_sync(run, [*line.split(), "--config", str(path)]) == 0, line
    shown = capsys.readouterr().out
    assert "github" in shown
    assert "PostgreSQL 1" in shown
    async with in_memory(path) as host:
        assert (await host.run(READS)).value > 0


async def test_while_the_server_is_gone_nothing_is_sent_and_afterwards_all_is_as_before(
    server: Cluster, path: Path
) -> None:
    async with in_memory(path) as host:
        assert (await host.run(CREATES)).value == 1
        server.stop()
        refused = await host.run(CREATES)
        assert refused.result.is_error or refused.content["status"] == "failed"
        assert "Start its server, or correct state.database" in refused.text
        assert len(host.reached("create_issue")) == 1
        server.start()
        assert (await host.run(CREATES)).value == 2


async def test_the_event_loop_waits_for_no_statement(server: Cluster, tmp_path: Path) -> None:
    """It would stand as long as the server does: for decisions on flows, listings of edited servers, accepted tools."""
    path = flowing(tmp_path)
    state = {"dir": str(tmp_path / "state"), "database": server.database().url}
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": state}))
    in_loop: list[str] = []
    own = threading.get_ident()

    def note(connection: object, cursor: object, text: str, *_: object) -> None:
        if threading.get_ident() == own:
            in_loop.append(text)

    async with opened(path) as (app, host):
        listen(Engine, "before_cursor_execute", note)
        try:
            assert (await host.run("from servers import bank, web\nbank.read() + web.read()")).value
            assert "public_sinks" in (await host.run("from servers.board import post\npost(text='x')")).text
            assert (await host.call("read_tool", path="/servers/bank/read.py")).text
            assert (await host.call("search_tools", query="read")).text
            edited = {
                name: it.model_copy(update={"args": [*it.args, "-"]})
                for name, it in app.config.settings.servers.items()
            }
            await app.pool.reconfigure(edited)
            await app.tools.definitions.read_acceptances("bank")
        finally:
            remove(Engine, "before_cursor_execute", note)
    assert in_loop == []
