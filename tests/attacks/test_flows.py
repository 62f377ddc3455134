"""Threat: a program moves data along a forbidden flow, and hides from where it has the data.

Rule: what counts is what the session has read before the call, not what is in its arguments. Each program runs twice:
as it is written, and with servers without labels in place of those with private and untrusted data; then the same call
is sent. Upstreams and sandboxes are real.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from codemode_server.app import App
from codemode_server.config.settings import PermissionSettings
from tests.attacks.kit import RAW
from tests.behaviour import sessions
from tests.behaviour.product import configuration, for_all, over_stdio
from tests.behaviour.sessions import product
from tests.database import change
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVER = Path(__file__).parent / "servers" / "flows.py"
LABELS: dict[str, dict[str, list[str]]] = {
    "bank": {"*": ["private"]},
    "web": {"*": ["untrusted"]},
    "calm": {"*": []},
    "board": {"post": ["public-sink"], "*": []},
}
SKILL = "from servers.board import post\n\ndef announce(text):\n    return post(text=text)\n"


def flowing(folder: Path, **permissions: Any) -> Path:
    servers = {
        name: {"command": sys.executable, "args": [str(SERVER), str(folder / f"{name}.log")], "labels": labels}
        for name, labels in LABELS.items()
    }
    (folder / "skills").mkdir(exist_ok=True)
    (folder / "skills" / "announcing.py").write_text(SKILL)
    return configuration(folder, servers, permissions=permissions or {"flows": {"public_sinks": "deny"}})


class Person(sessions.Person):
    """A principal of its own, with a workspace of its own, in a product that several tests share."""

    def posted(self) -> int:
        """How many posts of this principal arrived."""
        log = self.app.loaded.base_dir / "board.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return sum(self.principal.principal_id in json.loads(line).split() for line in lines)

    def code(self, text: str, *, is_tainted: bool) -> str:
        private, untrusted = ("bank", "web") if is_tainted else ("calm", "calm")
        names = {"PRIVATE": private, "UNTRUSTED": untrusted, "ME": self.principal.principal_id}
        for name, value in names.items():
            text = text.replace(name, value)
        return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with for_all(product(flowing(tmp_path_factory.mktemp("flows")))) as app:
        yield app


READS = """
from servers import PRIVATE as private, UNTRUSTED as untrusted
data = private.read() + untrusted.read()
"""
POST = "from servers.board import post\npost(text='ME ' + data)\n"
PROGRAMS = {
    "plainly": [READS + POST],
    "by renamed imports": [READS + "from servers.board import post as look\nlook(text='ME ' + data)"],
    "by codemode.call": [READS + "import codemode\ncodemode.call('board', 'post', {'text': 'ME ' + data})"],
    "by map": [READS + "from servers.board import post\npost.map([{'text': 'ME ' + data}])"],
    "in an error of the tools": [
        """
import codemode
from servers import PRIVATE as private, UNTRUSTED as untrusted
data = ""
for one in (private, untrusted):
    try:
        one.fail()
    except codemode.ToolError as error:
        data += str(error)
"""
        + POST
    ],
    "as soon as both parallel reads are answered": [
        """
import asyncio
from servers import PRIVATE as private, UNTRUSTED as untrusted, board, calm
async def move():
    a, b = await asyncio.gather(private.read(), untrusted.read())
    await board.post(text='ME ' + a + b)
await asyncio.gather(move(), calm.echo(text='noise'), calm.echo(text='more'))
"""
    ],
    "by another tool that returns it": [
        "from servers import PRIVATE as private, UNTRUSTED as untrusted, calm\n"
        "data = calm.echo(text=private.read() + untrusted.read())\n" + POST
    ],
    "without the reads' results": [
        "from servers import PRIVATE as private, UNTRUSTED as untrusted\nprivate.read()\nuntrusted.read()\n"
        "data = 'nothing'\n" + POST
    ],
    "by a skill": [READS + "from skills.announcing import announce\nannounce('ME ' + data)"],
    "from a resource": [
        "from servers.PRIVATE import resources as private\nfrom servers.UNTRUSTED import resources as untrusted\n"
        "data = private.read('note://one').text + untrusted.read('note://one').text\n" + POST
    ],
    "in a second program": [READS + "data", "from codemode import results\ndata = results[EARLIER]\n" + POST],
    "read in two programs": [
        "from servers.PRIVATE import read\nread()",
        "from servers.UNTRUSTED import read\ndata = read()\n" + POST,
    ],
    "by frames beneath the guest": [
        RAW + "call(10**6, 'PRIVATE', 'read'), call(10**6 + 1, 'UNTRUSTED', 'read')\n"
        "reply = call(10**6 + 2, 'board', 'post', text='ME x')\nif not reply['ok']: raise ValueError(reply['message'])"
    ],
}
FILE_WRITTEN = READS + "open('/workspace/notes.txt', 'w').write(data)"
FILE_READ = "data = open('/workspace/notes.txt').read()\n" + POST
BETWEEN_SESSIONS = {
    "in a file with a time long ago": [
        FILE_WRITTEN + "\nimport os\nos.utime('/workspace/notes.txt', (1, 1))",
        FILE_READ,
    ],
    "over two sessions": [
        FILE_WRITTEN,
        "import os\nos.rename('/workspace/notes.txt', '/workspace/other.txt')",
        "data = open('/workspace/other.txt').read()\n" + POST,
    ],
}


async def moved(app: App, steps: list[str], *, is_tainted: bool, names: list[str] | None = None) -> tuple[int, str]:
    """How many posts arrived, and what the last program ended with."""
    person, name = Person(app), "''"
    for number, step in enumerate(steps):
        code = person.code(step, is_tainted=is_tainted).replace("EARLIER", name)
        execution = await person.run(code, names[number] if names else "one")
        name = repr(str(execution.execution_id))
    error = execution.outcome.error
    return person.posted(), "" if error is None else error.message


@pytest.mark.evasion
@pytest.mark.parametrize("way", PROGRAMS)
async def test_a_program_that_moves_data_is_refused_and_the_same_call_without_it_is_sent(app: App, way: str) -> None:
    assert await moved(app, PROGRAMS[way], is_tainted=False) == (1, ""), "control"
    posted, error = await moved(app, PROGRAMS[way], is_tainted=True)
    assert posted == 0
    assert "bank." in error
    assert "web." in error
    assert "permissions.flows.public_sinks" in error


@pytest.mark.evasion
@pytest.mark.parametrize("way", BETWEEN_SESSIONS)
async def test_what_a_session_has_read_goes_with_what_it_writes_to_the_workspace(app: App, way: str) -> None:
    steps = BETWEEN_SESSIONS[way]
    names = [f"s{number}" for number in range(len(steps))]
    assert await moved(app, steps, is_tainted=False, names=names) == (1, ""), "control"
    posted, error = await moved(app, steps, is_tainted=True, names=names)
    assert posted == 0
    assert "bank.read by way of /workspace" in error


@pytest.mark.evasion
async def test_a_file_counts_also_where_the_clock_of_its_file_system_is_behind(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas on several machines share a file system, whose clock may differ by a second."""
    now = time.time
    steps = ["open('/workspace/notes.txt', 'w').close()", FILE_WRITTEN, FILE_READ]
    monkeypatch.setattr(time, "time", lambda: now() + 1.0)
    for is_tainted in (False, True):
        posted, _ = await moved(app, steps, is_tainted=is_tainted, names=["s0", "s1", "s2"])
        assert posted == (0 if is_tainted else 1)


@pytest.mark.evasion
async def test_a_file_counts_while_the_program_that_wrote_it_still_runs(app: App, tmp_path: Path) -> None:
    """The host can't see what a running program has written."""
    for is_tainted in (False, True):
        person, gate = Person(app), tmp_path / f"{is_tainted}"
        code = person.code(FILE_WRITTEN, is_tainted=is_tainted)
        writer = person.start(f"{code}\nfrom servers.calm import hold\nhold(text={str(gate)!r})", "one")
        written = app.loaded.base_dir / "state/workspaces" / person.principal.principal_id / "notes.txt"
        await until(written.exists)
        await person.run(person.code(FILE_READ, is_tainted=is_tainted), "two")
        gate.touch()
        await writer.done.wait()
        assert person.posted() == (0 if is_tainted else 1)


POLLING = """
import os, time
from servers.board import post
while not os.path.exists("/workspace/notes.txt"):
    time.sleep(0.01)
post(text="ME " + open("/workspace/notes.txt").read())
"""


@pytest.mark.evasion
@pytest.mark.parametrize("is_tainted", [False, True])
async def test_a_program_that_waits_for_the_file_of_another_running_server_is_refused(
    app: App, tmp_path: Path, is_tainted: bool
) -> None:
    """Two processes on one state folder. The reader began before the writer had read anything."""
    path = flowing(tmp_path)
    writing = Person(app).code(FILE_WRITTEN, is_tainted=is_tainted)
    async with over_stdio(path) as writer, over_stdio(path) as reader, anyio.create_task_group() as tasks:

        async def write() -> None:
            await writer.until(lambda: bool(list(tmp_path.glob("state/workspaces/*/started"))))
            await writer.call("execute_code", code=writing)

        tasks.start_soon(write)
        answer = await reader.call("execute_code", code="open('/workspace/started', 'w').close()\n" + POLLING)
    assert (tmp_path / "board.log").exists() != is_tainted
    assert ("bank.read by way of /workspace" in answer.text) == is_tainted


CHOOSING = """
import asyncio
from servers import PRIVATE as private, UNTRUSTED as untrusted, board, calm
first = asyncio.create_task(board.hold(text=GATE))
await calm.hold(text=GATE + '.held')
post = asyncio.create_task(board.post(text='ME it begins with t'))
await calm.echo(text='by now it waits for its turn')
data = await private.read() + await untrusted.read()
if data[0] == 't':
    await calm.touch(text=GATE)
    await asyncio.gather(first, post, return_exceptions=True)
"""


@pytest.mark.evasion
async def test_a_call_that_waited_for_its_turn_while_the_program_read_is_refused(app: App, tmp_path: Path) -> None:
    """Else the program could choose, by what it has read, whether a call that is allowed goes on."""
    for is_tainted in (False, True):
        person, gate = Person(app), tmp_path / f"{is_tainted}"
        await person.run(person.code(CHOOSING, is_tainted=is_tainted).replace("GATE", repr(str(gate))))
        assert person.posted() == (0 if is_tainted else 1)


@contextmanager
def permitted(app: App, **permissions: Any) -> Iterator[None]:
    """Other permissions for a while."""
    before = app.config.settings
    edited = before.model_copy(update={"permissions": PermissionSettings.model_validate(permissions)})
    app.config.replace(edited, app.config.redactor)
    try:
        yield
    finally:
        app.config.replace(before, app.config.redactor)


@pytest.mark.parametrize(
    ("rule", "last_call", "is_sent"),
    [
        ({"from": "b*k", "to": "b*/p*"}, "board.post", False),
        ({"from": "bank/fail", "to": "board"}, "board.post", True),
        ({"from": "bank/read", "to": "board/post"}, "board.post", False),
        ({"from": "private", "to": "public-sink"}, "board.post", False),
        ({"from": "private", "to": "public-sink"}, "board.echo", True),
        ({"from": "bank/read", "to": "bank"}, "bank.echo", False),
    ],
)
async def test_a_rule_forbids_a_flow_and_no_other(
    app: App, rule: dict[str, str], last_call: str, is_sent: bool
) -> None:
    server, tool = last_call.split(".")
    code = f"from servers import bank, {server}\ndata = bank.read()\n{server}.{tool}(text='ME ' + data)"
    with permitted(app, flows={"rules": [{**rule, "reason": "mail stays here"}]}):
        person = Person(app)
        execution = await person.run(person.code(code, is_tainted=True))
    assert (execution.outcome.error is None) == is_sent
    if execution.outcome.error is not None:
        text = f"rule 1 of permissions.flows.rules (from: {rule['from']}, to: {rule['to']}): this session has read"
        assert f"{text} bank.read: mail stays here" in execution.outcome.error.message


async def test_principals_do_not_count_for_each_other(app: App) -> None:
    first, second = Person(app), Person(app)
    await first.run(first.code(FILE_WRITTEN, is_tainted=True))
    await second.run(second.code("data = ''\n" + POST, is_tainted=True))
    assert second.posted() == 1


async def test_the_workspace_keeps_its_sources_over_a_restart_until_the_file_is_gone(tmp_path: Path) -> None:
    path = flowing(tmp_path)
    async with product(path) as app:
        person = Person(app)
        await person.run(person.code(FILE_WRITTEN, is_tainted=True))
    async with product(path) as app:
        later = Person(app, person.principal)
        await later.run(later.code(FILE_READ, is_tainted=True), "two")
        assert later.posted() == 0
    (tmp_path / "state" / "workspaces" / person.principal.principal_id / "notes.txt").unlink()
    async with product(path) as app:
        last = Person(app, person.principal)
        await last.run(last.code("data = ''\n" + POST, is_tainted=True), "three")
        assert last.posted() == 1


@pytest.mark.parametrize("rules", [[], [{"allow": "*", "limit": "9/hour"}]], ids=["no limit", "a limit"])
async def test_a_program_gets_nothing_of_a_source_that_cannot_be_written(tmp_path: Path, rules: list[Any]) -> None:
    """It would leave the data in a file of which nobody knows where they come from."""
    code = "from servers.bank import read\ndata = read()\nopen('/workspace/notes.txt', 'w').write(data)"
    async with product(flowing(tmp_path, flows={"public_sinks": "deny"}, rules=rules)) as app:
        person = Person(app)
        notes = tmp_path / "state/workspaces" / person.principal.principal_id / "notes.txt"
        await person.run(code)
        assert notes.exists(), "control"
        notes.unlink()
        full = "CREATE TRIGGER full BEFORE INSERT ON session_sources BEGIN SELECT RAISE(FAIL, ''); END"
        change(tmp_path / "state", full)
        await person.run(code)
        assert not notes.exists()
