"""`codemode-server stats`: what was saved, or was not, for a person at a terminal of 80 columns and for scripts."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.app import App
from codemode_server.cli import run
from codemode_server.config import load
from codemode_server.features.savings import commands as stats
from tests.behaviour.product import configuration
from tests.web.pages import State

NAME = "x7f3a9c21b04"


async def recorded(folder: Path, *, results: int, all_definitions: int) -> Path:
    state = State(folder / "state")
    await state.exchange(NAME, results=results, all_definitions=all_definitions)
    state.thread.close()
    return configuration(folder, {}, state={"dir": str(folder / "state")})


async def command(path: Path, *arguments: str) -> int:
    return await anyio.to_thread.run_sync(run, ["stats", *arguments, "--config", str(path)])


async def test_a_gain_is_shown_with_definitions_cached_and_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await recorded(tmp_path, results=9_000, all_definitions=20_000)
    assert await command(path, "--by", "execution") == 0
    page = capsys.readouterr().out
    assert "x7f3a9c21b04         1      1    300  11,010  10,710    27,810" in page
    assert "with a cache: saved about 10,710 tokens (97%)\nwithout a cache: saved about 27,810 tokens (96%)" in page


async def test_a_loss_is_said_plainly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = await recorded(tmp_path, results=0, all_definitions=50)
    assert await command(path) == 0
    page = capsys.readouterr().out
    assert "with a cache: cost about 285 tokens more than direct calls" in page
    assert "without a cache: cost about 1,140 tokens more than direct calls" in page
    assert "\nsmall tasks cost more than they save; programs with several calls or large results save most" in page
    async with App.open(load(path)) as app:
        (line,) = await stats.status_lines(app)
    assert line.startswith("tokens: about 285 more than direct calls cost in the last 30 days (300 against 15")
