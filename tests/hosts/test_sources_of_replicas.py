"""Two servers on one database, of which one decides on a call after a program of the other has read something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.storage.database import DatabasePlace, PostgresAddress
from tests.attacks.test_flows import flowing
from tests.hosts.kit import Served, http_host, serving

pytestmark = pytest.mark.slow

READS = "from servers import bank, web\nbank.read() + web.read()"
POST = "from servers.board import post\npost(text='hello')"
RUNS = 5


@contextmanager
def two_replicas(folder: Path, place: DatabasePlace) -> Iterator[tuple[Served, Served]]:
    path = flowing(folder)
    state = {"dir": str(folder / "state"), "key": "k" * 64}
    if isinstance(place, PostgresAddress):
        state["database"] = place.url
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": state}))
    with serving(path, is_forked=True) as one, serving(path, is_forked=True) as other:
        yield one, other


def posted(folder: Path) -> int:
    log = folder / "board.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def run(served: Served, folder: Path, code: str) -> Any:
    """One program in a session of its own."""
    async with http_host(served, folder, "auto") as host:
        return await host.run(code)


async def test_what_a_program_of_one_replica_has_read_forbids_the_next_call_at_the_other(
    tmp_path: Path, place: DatabasePlace
) -> None:
    with anyio.fail_after(120), two_replicas(tmp_path, place) as (one, other):
        assert (await run(other, tmp_path, POST)).content["status"] == "succeeded", "control"
        for _ in range(RUNS):
            assert (await run(one, tmp_path, READS)).content["status"] == "succeeded"
            refused = await run(other, tmp_path, POST)
            assert "private data (bank.read) and untrusted text (web.read)" in refused.text
            one, other = other, one
    assert posted(tmp_path) == 1


async def test_a_call_that_is_still_on_its_way_does_not_hide_what_the_other_replica_has_read_by_the_same_tool(
    tmp_path: Path, place: DatabasePlace
) -> None:
    done, gate = tmp_path / "done", tmp_path / "gate"
    (tmp_path / "open").touch()
    holds = f"from servers.bank import hold\nopen('/workspace/holding', 'w').close()\nhold(text={str(gate)!r})"
    reads = f"""
import os, time
from servers import bank, calm, web
while not os.path.exists("/workspace/waiting"):
    time.sleep(0.01)
data = bank.hold(text={str(tmp_path / "open")!r}) + web.read()
with open("/workspace/data", "w") as file:
    file.write(data)
calm.hold(text={str(done)!r})
"""
    posts = f"""
import os, time
from servers.board import post
while not os.path.exists("/workspace/holding"):
    time.sleep(0.01)
time.sleep(0.5)
open("/workspace/waiting", "w").close()
while not os.path.exists("/workspace/data"):
    time.sleep(0.01)
{POST}
"""
    with anyio.fail_after(120), two_replicas(tmp_path, place) as (one, other):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, other, tmp_path, holds)
            tasks.start_soon(run, one, tmp_path, reads)
            answer = await run(other, tmp_path, posts)
            done.touch()
            gate.touch()
    assert "private data (bank.hold) and untrusted text (web.read)" in answer.text
    assert posted(tmp_path) == 0
