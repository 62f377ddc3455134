"""What a hostile program can't do on any backend: reach the host, deceive it, or leave anything to the next program.
Every attack has beside it what an honest program can do in the same place, so that a pass can't mean that nothing ran.

What else a program can or can't do differs by nature: `test_wasm_isolation`, `test_microvm_isolation`.
"""

# ruff: noqa: ASYNC240 - short programs read best on one line; the files are small

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from codemode_server.sandbox.contract import Ending
from tests.sandbox.lab import SLOWNESS, Lab, Tools, cases
from tests.tables import tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)
CANARY = "canary-7f3a9c21"


async def test_no_file_of_the_host_can_be_read(
    lab: Lab, beside: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = [beside / "canary.txt", tmp_path / "canary.txt"]
    for canary in canaries:
        canary.write_text(CANARY)
    monkeypatch.chdir(tmp_path)
    paths = [*map(str, canaries), "canary.txt", "/canary.txt", __file__]
    code = f"""
found = []
for path in {paths!r}:
    for prefix in ("", "/..", "/tmp/../..", "/workspace/../..", "/workspace/..", "/proc/self/cwd", "/proc/1/root"):
        try:
            found.append(open(prefix + path, "rb").read().decode("latin-1"))
        except OSError:
            pass
[text for text in found if {CANARY[:7]!r} + {CANARY[7:]!r} in text]
"""
    assert await lab.value(code) == []
    (workspace / "own.txt").write_text("own")
    assert await lab.value("open('/workspace/own.txt').read()") == "own"


@pytest.mark.parametrize(
    "target", cases(["..", "{beside}/outside.txt", f"{'../' * 20}{{beside}}/outside.txt"], "{beside}/outside.txt")
)
async def test_a_link_out_of_the_workspace_does_not_lead_to_the_host(
    lab: Lab, beside: Path, workspace: Path, target: str
) -> None:
    """Made inside, or lying there already: on the host neither is followed."""
    (beside / "outside.txt").write_text(CANARY)
    target = target.format(beside=beside)
    (workspace / "planted").symlink_to(target)
    assert CANARY in (workspace / "planted" / ("outside.txt" if target == ".." else "")).read_text()
    code = f"""
import os
found = []
try:
    os.symlink({target!r}, "/workspace/made")
except OSError:
    pass
for name in ("planted", "made", "planted/outside.txt", "made/outside.txt", "planted/workspace/../outside.txt"):
    for look in (lambda p: open(p).read(), os.listdir):
        try:
            found.append(look("/workspace/" + name))
        except (OSError, UnicodeDecodeError):
            pass
    for place in (name, name + "/new"):
        try:
            open("/workspace/" + place, "w").write("x")
        except OSError:
            pass
found
"""
    found = json.dumps(await lab.value(code))
    assert CANARY not in found
    assert "outside.txt" not in found
    assert (beside / "outside.txt").read_text() == CANARY
    assert sorted(path.name for path in beside.iterdir()) == ["outside.txt", "workspace"]
    inner = (
        "import os\nopen('/workspace/a', 'w').write('x')\nos.symlink('a', '/workspace/b')\nopen('/workspace/b').read()"
    )
    assert await lab.value(inner) == "x"


async def test_the_hosts_environment_is_not_there(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEMODE_CANARY", CANARY)
    code = (
        "import os, sys\nos.environ['OWN'] = '1'\n[dict(os.environ), sys.argv, sys.orig_argv, sys.executable, sys.path]"
    )
    about = await lab.value(code)
    assert (about[0]["OWN"], about[1]) == ("1", ["program.py"])
    assert CANARY not in json.dumps(about)


async def test_a_raw_socket_to_the_hosts_own_listener_never_arrives(lab: Lab) -> None:
    arrived: list[bool] = []
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def note(stream: Any) -> None:
        arrived.append(True)
        await stream.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, note)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        connect = f"socket.create_connection(('127.0.0.1', {port}), 2)"
        code = f"import socket\ntry:\n    {connect}\nexcept OSError:\n    is_refused = True\nis_refused"
        assert await lab.value(code) is True
        assert arrived == []
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert arrived == [True]
        tasks.cancel_scope.cancel()
    await listener.aclose()


# Frames that no honest guest sends.


async def test_the_raw_transport_is_within_a_programs_reach(lab: Lab) -> None:
    """The positive control of what follows: a frame forged this way has its effect."""
    tools = Tools()
    code = (
        lab.raw
        + f"""
import time
send(op="call", id=1, server="github", tool="echo", arguments={{"forged": 1}})
time.sleep({0.2 * SLOWNESS})
"""
    )
    await lab.run(code, tools)
    assert tools.calls == [("github", "echo", {"forged": 1})]


@pytest.mark.parametrize(
    "attack", cases(TABLES["forged"], "no JSON", "a limit that only the host sees", "deep", "longer than any frame")
)
async def test_a_forged_frame_ends_the_sandbox(lab: Lab, attack: str) -> None:
    """The host reads the frames of every backend alike; how a sandbox ends is its backend's."""
    tools = Tools()
    outcome = await lab.run(f"{lab.raw}{attack}\nimport time\ntime.sleep({10 * SLOWNESS})", tools)
    assert outcome.ending is Ending.DIED, outcome
    assert outcome.error is not None
    assert "broke the protocol" in outcome.error.message
    assert tools.calls == []
    assert await lab.value("6 * 7") == 42


async def test_a_second_done_does_not_reach_the_next_program(lab: Lab) -> None:
    """The program steals its own run id, ends twice and goes on talking."""
    code = (
        lab.raw
        + """
import codemode_guest.runner as runner
original = runner.Link.send_last
def twice(self, text):
    original(self, text)
    self._transport.send(text)
    send(op="output", stream="stdout", text="from the last program")
runner.Link.send_last = twice
"first"
"""
    )
    for _ in range(3):
        assert await lab.value(code) == "first"
        outcome = await lab.run("print('mine')\n2")
        assert (outcome.value, outcome.stdout) == (2, "mine\n")


async def test_a_program_that_goes_on_after_its_end_is_not_kept(lab: Lab) -> None:
    code = (
        lab.raw
        + """
import codemode_guest.runner as runner
original = runner.Link.send_last
def forever(self, text):
    original(self, text)
    while True: pass
runner.Link.send_last = forever
"ended"
"""
    )
    name = "import codemode_guest.runner as runner\nrunner.Link.send_last.__name__"
    assert await lab.value(code) == "ended"
    assert await lab.value(lab.raw + name) == "send_last", "another interpreter"


@pytest.mark.parametrize(
    ("leave", "look"), cases(TABLES["left"], "modules", "builtins", "files in /tmp", "environment")
)
async def test_nothing_is_left_to_the_next_program(lab: Lab, leave: str, look: str) -> None:
    """Asked in the same program first: there the trace is."""
    assert await lab.value(f"{leave}\n{look}") is True
    for _ in range(3):
        assert await lab.value(look) is False
