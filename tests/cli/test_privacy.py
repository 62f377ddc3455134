"""`codemode-server privacy`: a person lists tokens, sees what one stands for, and forgets them while a product runs."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from tests.behaviour.product import in_memory
from tests.behaviour.test_privacy_tokens import ORIGINAL, SHEET, protected

from .pseudo_terminal import at_terminal, without_terminal

SEND = "from servers.salesforce import update_record\nupdate_record('M', '1', {'to': '<EMAIL_1>'})"


def command(path: Path, *arguments: str) -> list[str]:
    return ["privacy", *arguments, "--config", str(path)]


def program(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "codemode_server", *command(path, *arguments)]


async def test_tokens_are_listed_without_values_shown_to_the_person_and_forgotten_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = protected(tmp_path)
    async with in_memory(path) as host:
        await host.run(SHEET + "rows[0]")
        await host.run(SEND)
        capfd.readouterr()
        assert await anyio.to_thread.run_sync(run, command(path, "list", "--json", "--kind", "email")) == 0
        listed = capfd.readouterr().out
        assert [it["token"] for it in json.loads(listed)][:2] == ["<EMAIL_1>", "<EMAIL_2>"]
        assert ORIGINAL not in listed
        hidden = await anyio.to_thread.run_sync(without_terminal, program(path, "show", "EMAIL_1"))
        assert hidden.returncode == 2
        assert ORIGINAL not in hidden.stdout + hidden.stderr
        shown = await anyio.to_thread.run_sync(lambda: at_terminal(program(path, "show", "EMAIL_1"), ("\n", "")))
        assert ORIGINAL in shown
        kept = await anyio.to_thread.run_sync(without_terminal, program(path, "forget", "EMAIL_1"))
        assert kept.returncode == 2
        await anyio.to_thread.run_sync(at_terminal, program(path, "forget", "EMAIL_1"))
        assert "was forgotten" in (await host.run(SEND)).text
        assert [it["data"]["to"] for it in host.reached("update_record")] == [ORIGINAL]
    with sqlite3.connect(tmp_path / "state" / "codemode.db") as database:
        kinds = database.execute("SELECT kind, reason FROM audit WHERE kind LIKE 'privacy%' ORDER BY rowid").fetchall()
    assert kinds == [("privacy_shown", "<EMAIL_1>"), ("privacy_forgotten", "<EMAIL_1>")]


async def test_what_is_not_there_or_not_said_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = protected(tmp_path)
    for arguments, message in (
        (("show", "EMAIL_1"), "there is no token <EMAIL_1>"),
        (("forget",), "say which"),
        (("forget", "--older-than", "soon"), "is not of the form"),
    ):
        assert await anyio.to_thread.run_sync(run, command(path, *arguments)) == 2
        assert message in capfd.readouterr().err
