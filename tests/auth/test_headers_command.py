"""`headers_command`: a command prints the headers of a connection, and others when the server refuses those.

Over a real MCP server with a key that changes, and the product in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.config import load
from codemode_server.upstreams.auth.command_headers import CommandHeaders
from tests.answering import free_port, served
from tests.auth.kit import FOLDER, configured
from tests.behaviour.product import in_memory
from tests.processes import all_gone

pytestmark = pytest.mark.slow

FIRST, SECOND = "key-Z7kQ9xw41LmN0pR2", "key-2RFvbn8Xw41LmN0pR"
PRINT = """
import json, os, pathlib
here = pathlib.Path(__file__).parent
with (here / "runs").open("a") as file:
    file.write(os.environ["CLAUDE_CODE_MCP_SERVER_NAME"] + " " + os.environ["CLAUDE_CODE_MCP_SERVER_URL"] + "\\n")
print(json.dumps({"Authorization": "Bearer " + (here / "key").read_text(), "X-Also": "production"}))
"""


@dataclass(frozen=True)
class Keyed:
    """A running server, and the program that prints its headers."""

    url: str
    folder: Path

    def set_key(self, key: str) -> None:
        (self.folder / "key").write_text(key)

    def requests(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()

    def runs(self) -> int:
        file = self.folder / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Keyed]:
    port = free_port()
    made = Keyed(f"http://127.0.0.1:{port}/mcp", tmp_path)
    made.set_key(FIRST)
    (tmp_path / "print_headers.py").write_text(PRINT)
    with served(FOLDER / "keyed_server.py", tmp_path / "key", tmp_path / "log", port=port):
        (tmp_path / "log").write_text("")
        yield made


def entry(keyed: Keyed, **more: Any) -> dict[str, Any]:
    return {"url": keyed.url, "headers_command": f"{sys.executable} {keyed.folder / 'print_headers.py'}", **more}


ADD = "from servers.keyed import add\nreturn add(a=1, b=2)"


async def test_what_it_prints_is_sent_in_place_of_headers_of_the_same_names(keyed: Keyed, tmp_path: Path) -> None:
    path = configured(tmp_path, {"keyed": entry(keyed, headers={"Authorization": "Bearer old"})})
    async with in_memory(path) as host:
        assert (await host.run(ADD)).value == 3
    assert {line.split(maxsplit=1)[1] for line in keyed.requests()} == {f"Bearer {FIRST} production"}
    assert (tmp_path / "runs").read_text().splitlines()[0] == f"keyed {keyed.url}"


async def test_it_runs_once_more_where_the_server_refuses_and_the_call_succeeds(keyed: Keyed, tmp_path: Path) -> None:
    """The key changes in the middle of a connection, as a token expires."""
    async with in_memory(configured(tmp_path, {"keyed": entry(keyed)})) as host:
        assert (await host.run(ADD)).value == 3
        before = keyed.runs()
        keyed.set_key(SECOND)
        answer = await host.run("from servers.keyed import add\nreturn [add(a=1, b=n) for n in range(3)]")
        assert answer.value == [1, 2, 3]
        assert keyed.runs() == before + 1
    assert any(line.startswith(f"refused Bearer {FIRST}") for line in keyed.requests())


async def test_its_keys_are_masked_before_and_after_a_change(keyed: Keyed, tmp_path: Path) -> None:
    async with in_memory(configured(tmp_path, {"keyed": entry(keyed)})) as host:
        show = "from servers.keyed import show_key\nreturn show_key()"
        assert (await host.run(show)).value == "the key is ***"
        keyed.set_key(SECOND)
        assert (await host.run(show)).value == "the key is ***"
        assert (await host.run("return 'in production'")).value == "in production", "a plain word is no secret"


@pytest.mark.parametrize(
    ("prints", "reason"),
    [
        ("print('no')", "has to print a JSON object of headers"),
        ("print('[]')", "has to print a JSON object of headers"),
        ("print('[' * 60_000)", "has to print a JSON object of headers"),
        ("""print('{"a b": "c"}')""", "printed a name that no HTTP header can have"),
        ("""print('{"Authorization": 1}')""", "printed a value for Authorization that no HTTP header can have"),
        ("""print('{"A": "b\\\\r\\\\nC: d"}')""", "printed a value for A that no HTTP header can have"),
        ("import sys; sys.exit('sign in first')", "ended with code 1 (run it yourself to see why)"),
    ],
)
async def test_what_it_does_wrong_is_the_reason_why_the_server_is_down(
    keyed: Keyed, tmp_path: Path, prints: str, reason: str
) -> None:
    (tmp_path / "print_headers.py").write_text(prints)
    async with in_memory(configured(tmp_path, {"keyed": entry(keyed)})) as host:
        listed = (await host.call("list_dir", path="/servers/keyed")).text
        assert reason in listed
        assert "headers_command in upstream.yaml" in listed
    assert keyed.requests() == []


async def test_a_server_that_refuses_everything_does_not_have_it_run_again_and_again() -> None:
    now, runs = 0.0, 0

    def count(_: frozenset[str]) -> None:
        nonlocal runs
        runs += 1

    code = "import json,uuid; print(json.dumps({'A': str(uuid.uuid4())}))"
    headers = CommandHeaders("s", "http://x/", f'{sys.executable} -c "{code}"', mask=count, clock=lambda: now)
    sent = await headers.renew()
    other = await headers.after_refusal(sent)
    assert other is not None
    assert other != sent
    assert await headers.after_refusal(sent) == other, "another request has renewed them already"
    assert runs == 2
    assert await headers.after_refusal(other) is None
    assert runs == 2
    now += 6.0
    assert await headers.after_refusal(other) is not None, "control"
    assert runs == 3


def test_headers_helper_of_claude_code_is_read(tmp_path: Path) -> None:
    helper = "$HOME/bin/token --json | jq ."
    servers = {"a": {"url": "https://h/", "headersHelper": "/opt/print-headers --x"}}
    servers["b"] = {"url": "https://h/", "headersHelper": helper}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    loaded = load(tmp_path / "mcp.json", environ={"HOME": "/home/ada"})
    assert {name: it.headers_command for name, it in loaded.settings.servers.items()} == {
        "a": "/opt/print-headers --x",
        "b": f"sh -c '{helper}'",
    }


async def test_a_command_that_still_runs_ends_with_the_connection_that_needs_it(tmp_path: Path) -> None:
    """The process of the product ends right after its connections, and threads with it."""
    command = f"sh -c 'echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/self; sleep 1000'"
    headers = CommandHeaders("one", "https://127.0.0.1:9/mcp", command, mask=lambda _: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(headers.renew)
        with anyio.fail_after(60):
            while not (tmp_path / "self").exists():
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    await all_gone(int((tmp_path / "self").read_text()))
