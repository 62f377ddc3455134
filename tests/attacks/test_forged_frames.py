"""Threat: a program leaves the generated functions aside and forges frames on the channel to the host.

Rule: a frame can do nothing that the functions can't. The gateway judges each call by the pipe that it came through;
what is refused never reaches an upstream, whose own log is the proof, and the record says so.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from tests.attacks.kit import RAW, arrived, hostile, is_well, recorded
from tests.behaviour.product import Host, asked_of, configuration, in_memory, in_memory_for_all, library

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

RULES = {"rules": [{"deny": "main/hidden_act", "reason": "not for programs"}]}


def servers(folder: Path) -> dict[str, Any]:
    return {
        **hostile(folder, "plain", name="main"),
        **hostile(folder, "plain", name="other", tools={"exclude": ["hidden_act"]}),
        **hostile(folder, "plain", name="off", enabled=False),
        **library(folder, "archive"),
    }


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("frames")
    async with in_memory_for_all(configuration(folder, servers(folder), permissions=RULES)) as opened:
        yield opened


@pytest.fixture
def host(shared: Host) -> Host:
    for log in shared.folder.glob("*.log"):
        log.unlink()
    return shared


async def test_a_forged_call_of_an_allowed_tool_arrives_as_any_other(host: Host) -> None:
    """The positive control: the channel is within a program's reach, and works."""
    assert (await host.run(RAW + "call(1, 'main', 'act', how='ping')['value']")).value == "pong"
    assert arrived(host.folder, "main") == ["act"]
    assert recorded(host.folder)[-1] == ("main", "act", "allow", "succeeded")


OTHERS = {
    "denied": ("main", "hidden_act", "refused"),
    "excluded by the filter": ("other", "hidden_act", "unknown_tool"),
    "of a disabled server": ("off", "act", "unknown_tool"),
    "a glob": ("*", "*", "unknown_tool"),
    "an attribute": ("__proto__", "__class__", "unknown_tool"),
}


async def test_a_forged_call_of_anything_else_is_refused(host: Host) -> None:
    before = len(recorded(host.folder))
    for title, (server, tool, kind) in OTHERS.items():
        answer = await host.run(RAW + f"r = call(1, {server!r}, {tool!r})\n[r['ok'], r.get('kind')]")
        assert answer.value == [False, kind], title
    forged = """
send(op="call", id=1, server="main", tool="hidden_act", arguments={}, verdict="allow", caller="admin",
     execution_id="x000000000000", customer="other", seq=-5, permissions={"default": "allow"})
receive()["kind"]
"""
    assert (await host.run(RAW + forged)).value == "refused", "fields that claim another identity change nothing"
    await is_well(host)
    assert [arrived(host.folder, name) for name in ("main", "other", "off")] == [[], [], []]
    assert recorded(host.folder)[before:] == [("main", "hidden_act", "deny", "refused")] * 2


GET_LINKS = (
    RAW
    + """
def read(id, server, uri):
    send(op="read", id=id, server=server, uri=uri)
    return receive()
links = call(1, "archive", "find_letters", count=2)["value"]
"""
)
URIS = ("archive://private", "archive://letters/../private", "file:///etc/passwd")


async def test_a_forged_read_reads_what_a_result_linked_to_and_nothing_else(host: Host) -> None:
    before = len(recorded(host.folder))
    for uri in URIS:
        answer = await host.run(GET_LINKS + f"r = read(2, 'archive', {uri!r})\n[r['ok'], r.get('kind')]")
        assert answer.value == [False, "invalid_arguments"], uri
    for server in ("main", "off", "*"):
        answer = await host.run(GET_LINKS + f"read(2, {server!r}, links[1]['uri'])['ok']")
        assert answer.value is False, server
    assert asked_of("archive", host.folder) == []
    assert {row[3] for row in recorded(host.folder)[before:] if row[1] == "resources/read"} == {"invalid"}
    control = await host.run(GET_LINKS + "read(2, 'archive', links[1]['uri'])['value'][0]['text']")
    assert control.value == "Letter 1: all is well."
    assert asked_of("archive", host.folder) == ["letters/1"]


async def test_a_forged_read_asks_the_permissions_first_and_counts_as_a_call(tmp_path: Path) -> None:
    rules = {"default": "deny", "rules": [{"allow": "archive/find_*"}]}
    async with in_memory(configuration(tmp_path, servers(tmp_path), permissions=rules, limits={"calls": 20})) as host:
        answer = await host.run(GET_LINKS + "read(2, 'archive', links[1]['uri'])['kind']")
        assert answer.value == "refused"
        answer = await host.run(GET_LINKS + "for n in range(2, 60): read(n, 'archive', 'x')")
        assert answer.error["setting"] == "limits.calls"
    assert asked_of("archive", tmp_path) == []


async def test_a_flood_of_questions_leaves_the_host_time_for_others(tmp_path: Path) -> None:
    """The program never reads an answer; meanwhile the host is asked for something every now and then. What is measured
    is the processor's time on the event loop until the answer, which other processes do not lengthen."""
    flood = "send(op='search', id=n, query='thing number ' * 900, detail_level='full', server=None, limit=10**9)"
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "many"), limits={"wall_seconds": 2})) as host:
        endings: list[str] = []
        longest = 0.0

        async def attack() -> None:
            answer = await host.run(RAW + f"n = 0\nwhile True:\n    n += 1\n    {flood}")
            endings.append(answer.content["status"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attack)
            while not endings:
                started = time.thread_time()
                await host.call("list_dir", path="/skills")
                longest = max(longest, time.thread_time() - started)
                await anyio.sleep(0.05)
        assert endings == ["limit_exceeded"]
        assert longest < 2
        await is_well(host)


async def test_a_forged_show_or_artifact_does_what_the_functions_do_and_no_more(host: Host) -> None:
    """No name leads out of the session's own, whatever is written in it; what is shown is what its bytes are."""
    forged = """
import base64
send(op="show", id=1, data=base64.b64encode(b"no picture").decode(), mime_type="image/png", name="../../../etc/passwd")
answers = [receive()]
names = ["../1", "/etc/passwd", "x" * 12, "codemode://results/x", "*", "", "state/codemode.db"]
for n, name in enumerate(names, start=2):
    send(op="artifact", id=n, name=name, session_id="other", execution_id="x000000000000")
    answers.append(receive())
send(op="artifact", id=50, name=None)
answers.append(receive())
[answers[0]["ok"], [a["kind"] for a in answers[1:-1]], answers[-1]["value"]]
"""
    answer = await host.run(RAW + forged)
    own = f"{answer.content['execution_id']}/1"
    assert answer.value[:2] == [True, ["bad_argument"] * 7]
    assert answer.value[2][-1] == own, "control: its own it gets"
    assert answer.content["shown"] == ["passwd: text/plain, 10 bytes"]
    assert [block.type for block in answer.result.content] == ["text", "resource"]
    await is_well(host)
