"""Calls that may write reach a server one after the other, over all programs, since many servers lose writes that
overlap; calls that only read overlap. Through the whole product and a server that reads its file, sleeps and writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from tests import fork_server

from .product import PLAIN, Host, configuration, for_all, in_memory

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SERVER = (
    PLAIN
    + """
import threading, time
from pathlib import Path

server, notes, both = Server("notes"), Path(sys.argv[1]), threading.Barrier(2)

@server.tool()
def add_note(call: Call, text: str) -> int:
    before = notes.read_text() if notes.exists() else ""
    time.sleep(0.02)
    notes.write_text(before + text + " ")
    return len(before)

@server.tool(annotations={"readOnlyHint": True})
def look(call: Call) -> bool:
    both.wait(60)
    return True

@server.tool()
def get_notes(call: Call) -> bool:
    return look(call)

@server.tool()
def add_with_other(call: Call) -> bool:
    return look(call)

@server.tool()
def add_slowly(call: Call) -> bool:
    notes.with_name("slowly").touch()
    return call.cancelled.wait(20)

server.run()
"""
)
ADD_TEN = "from servers.notes import add_note\nlen(add_note.map([str(n) + '{}' for n in range(10)]))"
TWICE = "import asyncio\nfrom servers.{0} import {1} as tool\nawait asyncio.gather(tool(), tool())"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("notes")
    script = folder / "server.py"
    script.write_text(SERVER)

    def served(**settings: Any) -> dict[str, Any]:
        return {**fork_server.small_upstream(script, str(folder / "notes")), **settings}

    servers = {"notes": served(), "overlapping": served(concurrent_writes=True), "impatient": served(timeout=1)}
    rules = {"rules": [{"ask": "notes/add_note", "when": "args.text == 'asked'"}]}
    file = configuration(folder, servers, permissions=rules, approvals={"answer_seconds": 0.5, "browser": "never"})
    async with for_all(in_memory(file)) as host:
        yield host


@pytest.fixture(autouse=True)
def notes(shared: Host) -> Path:
    """The file of the server, which does not exist."""
    file = shared.folder / "notes"
    file.unlink(missing_ok=True)
    file.with_name("slowly").unlink(missing_ok=True)
    return file


def words(notes: Path) -> list[str]:
    return notes.read_text().split()


async def test_no_write_of_two_programs_that_map_is_lost(host: Host, notes: Path) -> None:
    async with host.running(ADD_TEN.format("a")):
        await host.run(ADD_TEN.format("b"))
    assert sorted(words(notes)) == sorted(f"{n}{program}" for n in range(10) for program in "ab")


async def test_writes_of_one_program_arrive_in_the_order_in_which_it_made_them(host: Host, notes: Path) -> None:
    await host.run(ADD_TEN.format(""))
    assert words(notes) == [str(n) for n in range(10)]


@pytest.mark.parametrize(
    ("server", "tool"), [("notes", "look"), ("notes", "get_notes"), ("overlapping", "add_with_other")]
)
async def test_calls_overlap_that_only_read_by_their_claim_or_name_or_whose_server_may_be_written_to_at_once(
    host: Host, server: str, tool: str
) -> None:
    assert (await host.run(TWICE.format(server, tool))).value == [True, True]


async def test_a_write_that_hangs_delays_others_by_its_own_time_limit_which_their_wait_is_no_part_of(
    host: Host, notes: Path
) -> None:
    code = "from servers.impatient import add_slowly, add_note\n{}"
    async with host.running(code.format("add_slowly.map([{}, {}]).errors")) as hanging:
        await host.until(notes.with_name("slowly").exists)
        assert (await host.run(code.format("add_note('after')"))).value == 0
    assert hanging[0].text.count("neither answered nor reported progress for 1 s") == 2


async def test_a_write_that_waits_is_not_sent_once_its_program_is_cancelled(host: Host, notes: Path) -> None:
    code = "from servers.notes import add_slowly, add_note\n{}"
    async with anyio.create_task_group() as slow:
        slow.start_soon(host.run, code.format("add_slowly()"))
        await host.until(notes.with_name("slowly").exists)
        with anyio.move_on_after(1):
            await host.run(code.format("add_note('cancelled')"))
        slow.cancel_scope.cancel()
    await host.run(code.format("add_note('next')"))
    assert words(notes) == ["next"]


async def test_a_write_that_a_person_is_asked_about_holds_up_no_other(host: Host, notes: Path) -> None:
    code = "from servers.notes import add_note\nadd_note('{}')"
    assert (await host.run(code.format("asked"))).content["status"] == "waiting"
    assert (await host.run(code.format("unasked"))).value == 0
    assert words(notes) == ["unasked"]
