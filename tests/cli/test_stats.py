"""`codemode-server stats`: what was saved, or was not, for a person at a terminal of 80 columns and for scripts."""

from __future__ import annotations

import time
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run, stats
from codemode_server.config import load
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.savings import Exchange, ServerTokens
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_savings import SqliteExchanges
from tests.behaviour.product import configuration

OWNER = Principal(PrincipalId("default"))


def written(folder: Path) -> Path:
    return configuration(folder, {}, state={"dir": str(folder / "state")})


async def record(folder: Path, *exchanges: Exchange) -> None:
    state = folder / "state"
    state.mkdir(mode=0o700)
    thread = DatabaseThread(state)
    store = SqliteExchanges(thread)
    for exchange in exchanges:
        store.add(exchange)
    await thread.run(lambda connection: None)
    thread.close()


def exchange(results: int, name: str = "x7f3a9c21b04", server: str = "github", days_ago: float = 0.0) -> Exchange:
    return Exchange(
        principal=OWNER,
        at=time.time() - days_ago * 86_400,
        tool="execute_code",
        execution_id=ExecutionId(name),
        sent=120,
        returned=80,
        own_definitions=1_000,
        all_definitions=20_000,
        turns=1,
        servers={server: ServerTokens(1, 10, results)},
    )


async def command(path: Path, *arguments: str) -> int:
    return await anyio.to_thread.run_sync(run, ["stats", *arguments, "--config", str(path)])


async def test_a_gain_is_shown_with_definitions_cached_and_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    await record(tmp_path, exchange(9_000))
    assert await command(path, "--by", "execution") == 0
    page = capsys.readouterr().out
    assert "x7f3a9c21b04         1      1    300  11,010  10,710    27,810" in page
    assert "definitions cached: saved about 10,710 tokens (97%)\nnot cached: saved about 27,810 tokens (96%)" in page


async def test_a_loss_is_said_plainly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    small = exchange(0)
    few = {name: getattr(small, name) for name in ("principal", "at", "tool", "execution_id", "sent", "returned")}
    await record(tmp_path, Exchange(**few, own_definitions=1_000, all_definitions=50, turns=1, servers=small.servers))
    assert await command(path) == 0
    page = capsys.readouterr().out
    assert "definitions cached: cost about 285 tokens more than direct calls" in page
    assert "not cached: cost about 1,140 tokens more than direct calls" in page
    assert "\nsmall tasks cost more than they save; programs with several calls or large results save most" in page
    line = await stats.status_line(load(path))
    assert line.startswith("tokens: about 285 more than direct calls cost in the last 30 days (300 against 15")
