"""Threat: a program leaves the generated functions aside and forges frames on the channel to the host.

Rule: a frame can do nothing that the functions can't. The gateway judges each call by the pipe that it came through;
what is refused never reaches an upstream, whose own log is the proof, and the record says so.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests import fork_server
from tests.attacks.kit import RAW, arrived, hostile, is_well, recorded
from tests.behaviour.product import configuration, in_memory

pytestmark = pytest.mark.slow

RULES = {"rules": [{"deny": "main/hidden_act", "reason": "not for programs"}]}


def two_servers(folder: Path) -> dict[str, Any]:
    filtered = {"tools": {"exclude": ["hidden_act"]}}
    return {
        **hostile(folder, "plain", name="main"),
        **hostile(folder, "plain", name="other", **filtered),
        **hostile(folder, "plain", name="off", enabled=False),
    }


async def test_a_forged_call_of_an_allowed_tool_arrives_as_any_other(tmp_path: Path) -> None:
    """The positive control: the channel is within a program's reach, and works."""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path), permissions=RULES)) as host:
        answer = await host.run(RAW + "call(1, 'main', 'act', how='ping')['value']")
        assert answer.value == "pong"
    assert arrived(tmp_path, "main") == ["act"]
    assert recorded(tmp_path) == [("main", "act", "allow", "succeeded")]


OTHERS = {
    "denied": ("main", "hidden_act", "refused"),
    "excluded by the filter": ("other", "hidden_act", "unknown_tool"),
    "of a disabled server": ("off", "act", "unknown_tool"),
    "a method of the protocol": ("main", "tools/call", "unknown_tool"),
    "not listed": ("main", "never listed", "unknown_tool"),
    "a slash in the server": ("main/hidden_act", "act", "unknown_tool"),
    "another case": ("MAIN", "act", "unknown_tool"),
    "a NUL": ("main\0", "act", "unknown_tool"),
    "another width": ("m\uff41in", "act", "unknown_tool"),
    "a glob": ("*", "*", "unknown_tool"),
    "nothing": ("", "", "unknown_tool"),
    "an attribute": ("__proto__", "__class__", "unknown_tool"),
}


async def test_a_forged_call_of_anything_else_is_refused(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, two_servers(tmp_path), permissions=RULES)) as host:
        for title, (server, tool, kind) in OTHERS.items():
            answer = await host.run(RAW + f"r = call(1, {server!r}, {tool!r})\n[r['ok'], r.get('kind')]")
            assert answer.value == [False, kind], title
        await is_well(host)
    assert [arrived(tmp_path, name) for name in ("main", "other", "off")] == [[], [], []]
    assert recorded(tmp_path) == [("main", "hidden_act", "deny", "refused")]


async def test_fields_that_claim_another_identity_change_nothing(tmp_path: Path) -> None:
    forged = """
send(op="call", id=1, server="main", tool="hidden_act", arguments={}, verdict="allow", caller="admin",
     execution_id="x000000000000", customer="other", seq=-5, permissions={"default": "allow"})
receive()["kind"]
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path), permissions=RULES)) as host:
        answer = await host.run(RAW + forged)
        assert answer.value == "refused"
        assert answer.content["calls"][0]["status"] == "refused"
    assert arrived(tmp_path, "main") == []


ARCHIVE = Path(__file__).parent.parent / "example_servers" / "archive.py"
GET_LINKS = (
    RAW
    + """
def read(id, server, uri):
    send(op="read", id=id, server=server, uri=uri)
    return receive()
links = call(1, "archive", "find_letters", count=2)["value"]
"""
)
URIS = {
    "of which no result told": "archive://private",
    "one further": "archive://letters/3",
    "with a slash more": "archive://letters/1/",
    "with dots": "archive://letters/../private",
    "percent": "archive://letters/%31",
    "a file": "file:///etc/passwd",
    "a template": "archive://letters/{number}",
    "nothing": "",
    "a NUL": "archive://letters/1\0",
}


def archive(folder: Path) -> dict[str, Any]:
    log = str(folder / "archive.log")
    return {"archive": fork_server.upstream(str(ARCHIVE), log), **two_servers(folder)}


def read(folder: Path) -> list[str]:
    log = folder / "archive.log"
    return log.read_text().splitlines() if log.exists() else []


async def test_a_forged_read_of_what_a_result_linked_to_arrives(tmp_path: Path) -> None:
    """The positive control of the next ones."""
    async with in_memory(configuration(tmp_path, archive(tmp_path))) as host:
        answer = await host.run(GET_LINKS + "read(2, 'archive', links[1]['uri'])['value'][0]['text']")
        assert answer.value == "Letter 1: all is well."
    assert read(tmp_path) == ["letters/1"]


async def test_a_forged_read_of_anything_else_is_refused_and_recorded(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, archive(tmp_path))) as host:
        for title, uri in URIS.items():
            answer = await host.run(GET_LINKS + f"r = read(2, 'archive', {uri!r})\n[r['ok'], r.get('kind')]")
            assert answer.value == [False, "invalid_arguments"], title
        for server in ("main", "off", "ARCHIVE", "archive/x", "*", ""):
            answer = await host.run(GET_LINKS + f"read(2, {server!r}, links[1]['uri'])['ok']")
            assert answer.value is False, server
        await is_well(host)
    assert read(tmp_path) == []
    assert {row[3] for row in recorded(tmp_path) if row[1] == "resources/read"} == {"invalid"}


async def test_a_forged_read_asks_the_permissions_first_and_counts_as_a_call(tmp_path: Path) -> None:
    rules = {"default": "deny", "rules": [{"allow": "archive/find_*"}]}
    async with in_memory(configuration(tmp_path, archive(tmp_path), permissions=rules, limits={"calls": 20})) as host:
        answer = await host.run(GET_LINKS + "read(2, 'archive', links[1]['uri'])['kind']")
        assert answer.value == "refused"
        answer = await host.run(GET_LINKS + "for n in range(2, 60): read(n, 'archive', 'x')")
        assert answer.error["setting"] == "limits.calls"
    assert read(tmp_path) == []


async def test_calls_after_a_forged_end_go_nowhere(tmp_path: Path) -> None:
    """The program finds its own id, says that it is done, and calls on."""
    forged = """
import codemode_guest.runner as runner
def end(self, text):
    self._transport.send(text)
    for n in range(1, 50):
        send(op="call", id=1000 + n, server="main", tool="act", arguments={"how": "ping"})
        send(op="output", stream="stdout", text="after the end")
runner.Link.send_text = end
"ended"
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path))) as host:
        for _ in range(3):
            answer = await host.run(RAW + forged)
            assert (answer.value, answer.content["calls"]) == ("ended", [])
            following = await host.run("print('mine')\n2")
            assert (following.value, following.content["stdout"]) == (2, "mine\n")
        assert (await host.run("from servers.main import act\nact(how='ping')")).value == "pong"
    assert arrived(tmp_path, "main") == ["act"]
    assert recorded(tmp_path) == [("main", "act", "allow", "succeeded")]


@pytest.mark.parametrize(("files", "ending"), [(4, "succeeded"), (10**6, "limit_exceeded")])
async def test_a_program_that_writes_after_its_end_is_still_measured(tmp_path: Path, files: int, ending: str) -> None:
    """The first is the positive control."""
    forged = """
import codemode_guest.runner as runner
def end(self, text):
    self._transport.send(text)
    for n in range(FILES):
        with open(f"/tmp/{n}", "wb") as file:
            file.write(bytes(2**20))
runner.Link.send_text = end
"ended"
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path), limits={"workspace_mb": 8})) as host:
        answer = await host.run(RAW + forged.replace("FILES", str(files)))
        assert answer.content["status"] == ending
        assert answer.content.get("error", {}).get("setting") == (None if files == 4 else "limits.workspace_mb")
        await is_well(host)


NO_FRAMES = {
    "utf-16": "raw.send(chr(0).join(json.dumps({'op': 'load', 'id': 1, 'module': 'servers'})) + chr(0))",
    "utf-16 with half a character": (
        "raw.send(''.join(c + chr(0) for c in json.dumps({'op': 'call', 'id': 1, 'server': 'main', 'tool': 'act',"
        " 'arguments': {'x': chr(0xd800)}})))"
    ),
    "byte order mark": "raw.send(chr(0xfeff) + json.dumps({'op': 'load', 'id': 1, 'module': 'servers'}))",
    "infinity": """raw.send('{"op":"call","id":1,"server":"main","tool":"act","arguments":{"x":1e999}}')""",
    "number without end": (
        """raw.send('{"op":"call","id":1,"server":"main","tool":"act","arguments":{"x":' + '9' * 5000 + '}}')"""
    ),
    "huge id, no arguments": "send(op='call', id=10**400, server='main', tool='act', arguments=[])",
    "raw that is no boolean": "send(op='call', id=1, server='main', tool='act', arguments={}, raw='yes')",
    "a read of no text": "send(op='read', id=1, server='main', uri=5)",
    "a read without end": "send(op='read', id=1, server='main', uri='x' * 9000)",
    "show without data": "send(op='show', id=1, mime_type='image/png', name='x')",
    "show of no base64": "send(op='show', id=1, data='%%%', mime_type=None, name=None)",
    "show with a type that is none": "send(op='show', id=1, data='', mime_type=7, name=None)",
    "show with an endless name": "send(op='show', id=1, data='', mime_type=None, name='x' * 10_000)",
    "kept of a list": "send(op='kept', id=1, name=['x'])",
    "kept with an endless name": "send(op='kept', id=1, name='x' * 10_000)",
    "kept with an old id": "send(op='kept', id=5, name=None); receive(); send(op='kept', id=5, name=None)",
    "the host's own frame": "send(op='run', id='x', code='1', limits={})",
    "a forged reply": "send(op='reply', id=1, ok=True, value=1, encoding='json')",
}


async def test_what_is_no_frame_ends_the_sandbox_and_nothing_else(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, two_servers(tmp_path))) as host:
        for title, frame in NO_FRAMES.items():
            answer = await host.run(RAW + frame + "\nimport time\ntime.sleep(20)")
            assert answer.error["type"] == "SandboxFailed", title
            assert "broke the protocol" in answer.error["message"], title
            await is_well(host)
    assert arrived(tmp_path, "main") == []


async def test_frames_while_a_call_is_on_its_way_are_answered_each_for_itself(tmp_path: Path) -> None:
    forged = """
send(op="call", id=1, server="main", tool="act", arguments={"how": "slow"})
send(op="call", id=2, server="main", tool="hidden_act", arguments={})
send(op="load", id=3, module="servers.main")
send(op="search", id=4, query="act", detail_level="name_only", server=None, limit=5)
sorted((r["id"], r["ok"], r.get("kind")) for r in (receive() for _ in range(4)))
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path), permissions=RULES)) as host:
        answer = await host.run(RAW + forged)
        assert answer.value == [[1, True, None], [2, False, "refused"], [3, True, None], [4, True, None]]
    assert arrived(tmp_path, "main") == ["act"]


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param("send(op='load', id=n, module='servers.many.tool_number_' + str(n + 10**6))", id="load"),
        pytest.param(
            "send(op='search', id=n, query='thing number tool ' * 900, detail_level='full', server=None, limit=10**9)",
            id="search",
        ),
        pytest.param("send(op='output', stream='stdout', text='')", id="empty output"),
    ],
)
async def test_a_flood_of_questions_leaves_the_host_time_for_others(tmp_path: Path, flood: str) -> None:
    """The program never reads an answer; meanwhile the host is asked for something every now and then.

    What is measured is the processor's time on the event loop until the answer, which other processes do not lengthen.
    """
    servers = hostile(tmp_path, "many")
    async with in_memory(configuration(tmp_path, servers, limits={"wall_seconds": 2})) as host:
        assert (await host.call("list_dir", path="/servers/many")).result.is_error is not True
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


async def test_a_forged_show_or_kept_does_what_the_functions_do_and_no_more(tmp_path: Path) -> None:
    """No name leads out of the session's own, whatever is written in it; what is shown is what its bytes are."""
    forged = """
import base64
send(op="show", id=1, data=base64.b64encode(b"no picture").decode(), mime_type="image/png", name="../../../etc/passwd")
answers = [receive()]
names = ["../1", "/etc/passwd", "x" * 12, "codemode://results/x", "*", "", "state/codemode.db"]
for n, name in enumerate(names, start=2):
    send(op="artifact", id=n, name=name, start=0, session_id="other", execution_id="x000000000000")
    answers.append(receive())
send(op="artifact", id=50, name=None, start=0)
answers.append(receive())
[answers[0]["ok"], [a["kind"] for a in answers[1:-1]], answers[-1]["value"]]
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path))) as host:
        answer = await host.run(RAW + forged)
        own = f"{answer.content['execution_id']}/1"
        assert answer.value == [True, ["bad_argument"] * 7, [own]], "control: its own it gets"
        assert answer.content["shown"] == ["passwd: text/plain, 10 bytes"]
        assert [block.type for block in answer.result.content] == ["text", "resource"]
        await is_well(host)


async def test_a_forged_read_of_a_result_from_where_no_piece_begins_is_refused(tmp_path: Path) -> None:
    forged = """
answers = []
for n, (name, start) in enumerate(QUESTIONS, start=1):
    send(op="artifact", id=n, name=name, start=start)
    answers.append(receive())
[answer.get("kind", "given") for answer in answers]
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path))) as host:
        short = (await host.run("['é']")).content["execution_id"]
        long = (await host.run("'é' * 2_000_000")).content["execution_id"]
        good, bad = (
            [(short, 0), (long, 0), (long, 3)],
            [(short, 1), (short, 3), (long, 2), (long, -1), (long, 10**4000)],
        )
        answer = await host.run(RAW + forged.replace("QUESTIONS", str(good + bad)))
        assert answer.value[:3] == ["given"] * 3, "control"
        assert answer.value[3:] == ["bad_argument"] * 5
        await is_well(host)


async def test_a_hint_in_a_forged_end_is_cleaned_and_bounded(tmp_path: Path) -> None:
    forged = """
import time
send(op="done", id=run_id(), value=1, value_form="json", error=None, hint="\\x1b[31mred\\u202e" + "x" * 100_000)
time.sleep(20)
"""
    async with in_memory(configuration(tmp_path, two_servers(tmp_path))) as host:
        answer = await host.run(RAW + forged)
        assert answer.value == 1
        (hint,) = answer.content["hints"]
        assert hint.startswith("redxxx")
        assert len(hint) <= 400  # a remark that names a call and how to test for its error takes so many
        await is_well(host)
