"""Threat: a call that was allowed waits for its server, the person edits upstream.yaml meanwhile, and it is sent.

Rule: what is in force when a call is sent decides. Real servers that record calls, which start or answer only once a
file is gone; the product watches its configuration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from tests.attacks.kit import recorded
from tests.behaviour.product import PLAIN, Host, configuration
from tests.database import rows
from tests.fork_server import small_upstream

pytestmark = pytest.mark.slow

SERVER = """
import time
from pathlib import Path
folder = Path(sys.argv[1])
def wait():
    while (folder / "closed").exists():
        time.sleep(0.01)
wait()
server = Server("slow")

@server.tool()
def act() -> str:
    with (folder / "arrived.log").open("a") as log:
        log.write("act\\n")
    return "done"

@server.tool()
def hold(call: Call) -> str:
    wait()
    return "held"

server.run()
"""
ACT = """
import codemode
from servers.slow import act
try:
    outcome = act()
except codemode.ToolError as error:
    outcome = error.kind
outcome
"""
ACT_AFTER_HOLD = """
import asyncio
from servers.slow import act, hold
outcomes = await asyncio.gather(hold(), act(), return_exceptions=True)
getattr(outcomes[1], "kind", outcomes[1])
"""
EDITS: dict[str, dict[str, Any]] = {
    "another setting": {"limits": {"calls": 99, "calls_in_flight": 1}},
    "a rule": {"permissions": {"rules": [{"deny": "slow/act"}]}},
    "the default": {"permissions": {"default": "deny"}},
    "an excluded tool": {"tools": {"exclude": ["act"]}},
    "a disabled server": {"enabled": False},
}


def file_of(folder: Path, *, tools: Any = None, enabled: bool = True, **sections: Any) -> Path:
    script = folder / "slow.py"
    script.write_text(PLAIN + SERVER)
    server = small_upstream(script, str(folder)) | {"tools": tools or {}, "enabled": enabled}
    sections.setdefault("limits", {"calls_in_flight": 1})
    return configuration(folder, {"slow": server}, **sections)


async def act_while_edited(folder: Path, edit: dict[str, Any], waits_for: str) -> Any:
    """What a program gets of a call that waits for `waits_for` while the configuration is edited."""
    closed, code = folder / "closed", ACT_AFTER_HOLD if waits_for == "a free slot" else ACT
    path = file_of(folder)
    if waits_for == "the start":  # the tools are known from the run before
        async with App.open(load(path)) as app, Client(app.front) as client:
            await Host(client, folder).settled()
        closed.touch()
    async with App.open(load(path), watch=True) as app, Client(app.front) as client:
        host = Host(client, folder)
        if waits_for != "the start":
            await host.settled()
        closed.touch()

        async with host.running(code) as answers:
            waiting = ("hold" if waits_for == "a free slot" else "act",)
            begun = "SELECT tool FROM calls WHERE status = 'started'"
            await host.until(lambda: waiting in rows(folder / "state", begun))
            file_of(folder, **edit)
            with anyio.fail_after(60):
                await app.config.wait_newer(0)
            closed.unlink()
    return answers[0].value


def arrived(folder: Path) -> list[str]:
    log = folder / "arrived.log"
    return log.read_text().split() if log.exists() else []


@pytest.mark.parametrize("waits_for", ["the start", "a free slot"])
@pytest.mark.parametrize(("edit", "outcome"), [("another setting", "done"), ("a rule", "refused")])
async def test_a_call_that_waited_is_sent_if_it_is_still_allowed(
    tmp_path: Path, waits_for: str, edit: str, outcome: str
) -> None:
    assert await act_while_edited(tmp_path, EDITS[edit], waits_for) == outcome
    assert arrived(tmp_path) == (["act"] if outcome == "done" else [])
    calls = [(server, tool, status) for server, tool, _, status in recorded(tmp_path)]
    assert (("slow", "act", "refused") in calls) is (outcome == "refused")


@pytest.mark.parametrize("edit", ["the default", "an excluded tool", "a disabled server"])
async def test_a_call_that_waited_is_refused_by_any_edit_that_forbids_it(tmp_path: Path, edit: str) -> None:
    assert await act_while_edited(tmp_path, EDITS[edit], "the start") == "refused"
    assert arrived(tmp_path) == []
