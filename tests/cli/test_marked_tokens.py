"""`executions show` marks privacy tokens at a terminal, and shows the person there what they stand for on demand."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio.to_thread
import pytest

from tests.behaviour.product import configuration
from tests.web.pages import OTHER, OWN, State

from .pseudo_terminal import at_terminal, without_terminal

pytestmark = pytest.mark.slow

VALUE, OTHERS = "ann@example.org", "bob@example.org"
MARKED = "\x1b[1;4m<EMAIL_1>\x1b[22;24m"


async def recorded(folder: Path) -> list[str]:
    """A program with a token, and the command that shows it."""
    state = {"dir": str(folder / "state"), "payloads": "all"}
    path = configuration(folder, {}, state=state)
    written = State(folder / "state")
    await written.privacy_token(VALUE)
    await written.privacy_token("first@example.org", principal=OTHER)
    await written.privacy_token(OTHERS, principal=OTHER)
    await written.execution("x1", "send('<EMAIL_1>', '<EMAIL_2>')")
    written.thread.close()
    return [sys.executable, "-m", "codemode_server", "executions", "show", "x1", "--config", str(path)]


async def shown_tokens(folder: Path) -> list[str | None]:
    state = State(folder / "state")
    rows = await state.audit.rows(OWN)
    state.thread.close()
    return [row.event.reason for row in rows if row.event.kind == "privacy_shown"]


async def on_terminal(command: list[str]) -> str:
    return await anyio.to_thread.run_sync(lambda: at_terminal(command, ("codemode", "")))


async def test_at_a_terminal_those_that_stand_for_something_are_marked(tmp_path: Path) -> None:
    command = await recorded(tmp_path)
    shown = await on_terminal(command)
    assert f"send('{MARKED}', '<EMAIL_2>')" in shown
    assert "<EMAIL_1> is a privacy token; `codemode-server privacy show EMAIL_1` shows you what it" in shown
    assert VALUE not in shown
    assert await shown_tokens(tmp_path) == []


async def test_the_person_is_shown_the_values_and_it_is_recorded(tmp_path: Path) -> None:
    command = [*await recorded(tmp_path), "--reveal"]
    shown = await on_terminal(command)
    assert f"<EMAIL_1> (email) stands for '{VALUE}'" in shown
    assert OTHERS not in shown
    assert await shown_tokens(tmp_path) == ["<EMAIL_1>"]


async def test_without_a_person_at_a_terminal_nothing_is_shown(tmp_path: Path) -> None:
    command = [*await recorded(tmp_path), "--reveal"]
    refused = await anyio.to_thread.run_sync(without_terminal, command)
    assert refused.returncode == 2
    assert "needs a person at a terminal" in refused.stderr
    assert VALUE not in refused.stdout + refused.stderr
    assert await shown_tokens(tmp_path) == []


async def test_the_values_go_to_the_terminal_and_not_to_the_output(tmp_path: Path) -> None:
    """A model that starts the command at a person's terminal reads its output all the same."""
    command = [*await recorded(tmp_path), "--reveal"]
    output = tmp_path / "output"
    piped = ["/bin/sh", "-c", f"{' '.join(command)} > {output}; echo codemode ended"]
    shown = await on_terminal(piped)
    assert VALUE in shown, "control"
    assert VALUE not in output.read_text()
    assert "send('<EMAIL_1>', '<EMAIL_2>')" in output.read_text()
