"""Hosts of one person on one running server: nothing that belongs to a session is another's.

Real processes; each host works in a folder of its own and has a person who answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests.attacks.test_flows import flowing
from tests.behaviour.person import Person, choosing
from tests.behaviour.product import UPSTREAMS, Answer, Host, configuration, started
from tests.behaviour.test_approvals import TOOL
from tests.behaviour.test_flow_questions import ASKS, POST, READS
from tests.behaviour.test_input_requests import ASK_CITY, SAMPLE, ask
from tests.behaviour.test_privacy_tokens import SHEET, TOLD, protected
from tests.shared_server import Person as Owner
from tests.shared_server import is_running, person

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # a server is started as for a person
    pytest.mark.skipif(sys.platform == "win32", reason="there each host has a product of its own"),
]
SESSION_LOGS = "from pathlib import Path\nlen(list(Path('/workspace/sessions').glob('session-*.json')))"


@dataclass
class Hosts:
    """Hosts of one person."""

    owner: Owner

    @asynccontextmanager
    async def host(self, folder: Path | str, user: Person, mode: str = "auto") -> AsyncIterator[Host]:
        """One that works there."""
        arguments = ["-P", "-m", "codemode_server", "--config", str(self.owner.config)]
        parameters = StdioServerParameters(
            command=sys.executable, args=arguments, env=self.owner.environment, cwd=folder
        )
        async with Client(parameters, mode=mode, **user.callbacks) as client:
            host = Host(client, self.owner.config.parent)
            await host.settled()
            yield host

    @asynccontextmanager
    async def two(self, one: Person, other: Person, mode: str = "auto") -> AsyncIterator[tuple[Host, Host]]:
        async with self.host("/", one, mode) as first, self.host("/", other, mode) as second:
            (server,) = self.owner.servers()
            assert server["sessions"] == 2
            yield first, second


@contextmanager
def hosts(config: Path) -> Iterator[Hosts]:
    with person(config) as owner:
        yield Hosts(owner)


@dataclass
class WithRoots(Person):
    """Somebody with this folder open."""

    root: str = ""

    async def roots(self, _context: Any) -> types.ListRootsResult:
        self.seen.append("roots/list")
        return types.ListRootsResult(roots=[types.Root(uri=self.root)])  # type: ignore[arg-type]


async def where(host: Host, server: str) -> dict[str, Any]:
    value: dict[str, Any] = (await host.run(f"from servers.{server} import where\nwhere()")).value
    return value


async def test_servers_work_in_the_folder_of_their_host_know_its_roots_alone_and_end_with_it(tmp_path: Path) -> None:
    """Of both eras; a host that is started in the root of the disk works nowhere."""
    folders = [tmp_path / "one", tmp_path / "two"]
    script = UPSTREAMS / "folders.py"
    servers = {
        "plain": started(script, "plain", "."),
        "roots": started(script, "roots", "."),
        "own": started(script, "plain", "/") | {"share": "session"},
    }
    for folder in folders:
        folder.mkdir()
    one, two, third = (WithRoots(root=f"file:///{name}") for name in ("one", "two", "three"))
    with hosts(configuration(tmp_path, servers)) as its:
        async with its.host("/", third) as nowhere, its.host(folders[0], one, "legacy") as first:
            async with its.host(folders[1], two) as second:
                found = {
                    name: [await where(host, name) for host in (first, second, nowhere, first)] for name in servers
                }
                status = await anyio.to_thread.run_sync(its.owner.command, "status")
            await first.until(lambda: not is_running(found["own"][1]["process"]))
            again = await where(first, "own")
    works = [str(folders[0]), str(folders[1]), str(tmp_path), str(folders[0])]
    assert [it["folder"] for it in found["plain"]] == works
    assert [it["folder"] for it in found["roots"]] == works
    assert [it["roots"] for it in found["roots"]] == [[it.root] for it in (one, two, third, one)]
    assert [it["calls"] for it in found["own"]] == [1, 1, 1, 2]
    assert again["calls"] == 3
    assert "more connections for folders and sessions: own 3, plain 2, roots 3" in status


async def test_what_a_server_asks_reaches_the_host_of_its_call_and_nobody_while_that_is_unknown(tmp_path: Path) -> None:
    """A server of protocol 2025-11-25 does not say for which call it asks."""
    meanwhile = list[Answer]()

    class Thinking(Person):
        async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
            if not meanwhile:
                meanwhile.append(await ask(other, ASK_CITY))
            return await super().elicit(context, params)

    servers = {"asking": started(UPSTREAMS / "asking.py", "legacy", str(tmp_path / "asking.log"))}
    ada, bob = Thinking(content={"city": "Oslo"}), Person(content={"city": "Rome"}, said="bob's model")
    with hosts(configuration(tmp_path, servers)) as its:
        async with its.two(ada, bob) as (one, other):
            oslo = await ask(one, ASK_CITY)
            assert "calls of several sessions are under way" in meanwhile[0].text
            assert (len(ada.seen), bob.seen) == (1, [])
            rome, said = (await ask(other, ASK_CITY, SAMPLE)).value
    assert oslo.value == [{"action": "accept", "content": {"city": "Oslo"}}]
    assert rome == {"action": "accept", "content": {"city": "Rome"}}
    assert said["content"]["text"] == "bob's model"
    assert len(ada.seen) == 1


async def test_a_host_that_cannot_be_asked_is_not_answered_for_by_another(tmp_path: Path) -> None:
    """Servers are told of what any host can answer."""
    servers = {"asking": started(UPSTREAMS / "asking.py", "legacy", str(tmp_path / "asking.log"))}
    ada = Person(content={"city": "Oslo"})
    with hosts(configuration(tmp_path, servers)) as its:
        async with its.host("/", ada) as one:
            assert (await ask(one, ASK_CITY)).value[0]["action"] == "accept"
            wire = its.owner.host()
            code = f"from servers.asking import ask\nask(requests={[ASK_CITY, SAMPLE]!r})"
            answer = wire.ask("tools/call", name="execute_code", arguments={"code": code})
    form, refused = answer["result"]["structuredContent"]["value"]
    assert form == {"action": "decline"}
    assert "does not support sampling" in refused["error"]
    assert len(ada.seen) == 1


async def test_an_answer_for_the_session_and_what_a_session_has_read_are_no_other_hosts(tmp_path: Path) -> None:
    """Without logs of sessions: one that is written while a program runs counts as changed by that."""
    permissions = ASKS | {"rules": [{"ask": "calm"}, {"allow": "board"}]}
    ada, bob = choosing(TOOL), choosing(TOOL)
    calm = "from servers.calm import read\nread()"
    config = flowing(tmp_path, **permissions)
    settings = json.loads(config.read_text())
    settings["state"]["session_days"] = 0
    config.write_text(json.dumps(settings))
    with hosts(config) as its:
        async with its.two(ada, bob, "legacy") as (one, other):
            for host in (one, one, other):
                await host.run(calm)
            assert (len(ada.seen), len(bob.seen)) == (1, 1)
            await one.run(READS)
            await one.run(POST)
            await other.run(POST)
    assert (len(ada.seen), len(bob.seen)) == (2, 1)
    assert "private data" in ada.seen[1].message


async def test_each_session_is_told_of_tokens_and_has_its_own_log(tmp_path: Path) -> None:
    with hosts(protected(tmp_path)) as its:
        async with its.two(Person(), Person()) as (one, other):
            seen = [(await host.run(SHEET + "rows[0]['Customer']")) for host in (one, other, one)]
            logs = (await one.run(SESSION_LOGS)).value
    assert [it.value for it in seen] == ["<EMAIL_1>"] * 3
    assert [TOLD in it.text for it in seen] == [True, True, False]
    assert logs == 2
