"""The product with its record on PostgreSQL: the same as on SQLite, and while the server is gone nothing is sent.

A real server, and the product as a host sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from codemode_server.cli import run
from tests.behaviour.product import configuration, in_memory, office
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
