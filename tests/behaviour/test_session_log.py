"""The log of a session in /workspace/sessions: what it has, who sees it, and that it harms no program.

Driven as a host does; a product that is killed is a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.storage.test_kills import kill, running

from .product import configuration, in_memory

pytestmark = pytest.mark.slow


def sessions(folder: Path) -> Path:
    return folder / "state" / "workspaces" / "default" / "sessions"


def logs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(sessions(folder).glob("*.json"))]


async def test_a_session_that_has_read_what_flows_restrict_is_not_logged(tmp_path: Path) -> None:
    """The log would carry it to every other session of the principal."""
    permissions = {"flows": {"rules": [{"from": "google_drive", "to": "github", "decision": "deny"}]}}
    async with in_memory(configuration(tmp_path, permissions=permissions)) as host:
        await host.run("'before'")
        await host.until(lambda: "succeeded" in str(logs(tmp_path)))
        reading = "from servers.google_drive import get_document\nget_document({'documentId': 'abc123'})['content']"
        assert "price" in (await host.run(reading)).value
        await host.run("'after'")
    (log,) = logs(tmp_path)
    assert [task["result"] for task in log["tasks"]] == ["before"]


async def test_the_log_ends_no_program_in_a_workspace_that_is_nearly_full(tmp_path: Path) -> None:
    """The programs write nothing, and their log would take the workspace beyond its quota."""
    idle = f"import time\nfor _ in range(12): time.sleep(0.05)\n# {'x' * 7_000}"
    async with in_memory(configuration(tmp_path, {}, limits={"workspace_mb": 1})) as host:
        await host.run("open('/workspace/a', 'wb').write(bytes(2**20 - 20_000))")
        answers = [await host.run(idle) for _ in range(4)]
    assert [answer.content["status"] for answer in answers] == ["succeeded"] * 4, answers[-1].text


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.skipif(sys.platform != "linux", reason="kills by number")
def test_a_log_and_the_checkpoint_are_intact_after_each_of_many_kills(tmp_path: Path) -> None:
    """The product is killed at another moment of its program each time."""
    path, random = configuration(tmp_path, {}), Random(15)
    saved = sessions(tmp_path).parent / "state" / "checkpoint.json"
    for round_ in range(KILLS):
        code = SAVING.format(round=round_)
        with running(path, code) as process:
            deadline = time.monotonic() + 60
            while not (
                len(logs(tmp_path)) > round_
                and saved.exists()
                and json.loads(saved.read_text())["context"].startswith(f"{round_} ")
            ):
                assert time.monotonic() < deadline, "the program saves nothing"
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.2))
            kill(process)
        tasks = [log["tasks"][0] for log in logs(tmp_path)]
        assert code in [task["code"] for task in tasks]
        assert json.loads(saved.read_text())["context"] == f"{round_} {'x' * 9_000}"
    assert len(logs(tmp_path)) == KILLS


KILLS = 5
SAVING = """
from codemode import checkpoint
for number in range(10**6):
    checkpoint.save(step=number, context="{round} " + "x" * 9_000)
"""
