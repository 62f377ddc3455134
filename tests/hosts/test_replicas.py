"""Two servers on one state folder behind the real HAProxy with deploy/haproxy.cfg, and what no balancer may do: send a
program twice.

The replicas are processes of their own; hosts are the real `mcp.Client`, in both protocol eras.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from codemode_server.domain.principals import principal_id
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from tests.behaviour.person import Person
from tests.behaviour.product import Host, configuration, office
from tests.behaviour.test_input_requests import ASK_CITY, ask, asking, told
from tests.database import rows
from tests.hosts.balancer import CONFIG, HAPROXY, balanced, is_ready
from tests.hosts.kit import Mode, Served, approved, http_host, reached, serving, until

pytestmark = pytest.mark.slow

KEY = {"key": "k" * 64}
EACH_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])
STAY = """
import asyncio
from servers.slack import get_channel_history
get_channel_history(channel="C1")
await asyncio.sleep(50)
"""


@pytest.fixture(autouse=True)
def haproxy() -> str:
    if HAPROXY is None:
        end = pytest.fail if os.environ.get("CODEMODE_NEEDS_HAPROXY") else pytest.skip
        end("haproxy is not installed; python -m scripts.debian_tools installs it on Debian")
    return HAPROXY


def state(folder: Path) -> dict[str, str]:
    return {"dir": str(folder / "state"), **KEY}


def configured(folder: Path, **sections: Any) -> Path:
    servers = office(folder, "github", "slack")
    return configuration(folder, servers, state=state(folder), **sections)


@dataclass(frozen=True)
class Cluster:
    replicas: tuple[Served, Served]
    balancer: Served
    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)

    def host(self, mode: Mode, person: str | None = None, **callbacks: Any) -> Any:
        """A host at the balancer, of the user or of a person with a token of their own."""
        headers = {}
        if person is not None:
            if person not in self.tokens:
                self.tokens[person], _ = AccessTokens(self.folder / "state").create(principal_id(person), None)
            headers = {"Authorization": f"Bearer {self.tokens[person]}"}
        return http_host(self.balancer, self.folder, mode, callbacks=callbacks, **headers)

    def owners(self) -> set[str]:
        """The replicas that have run something."""
        return {str(name) for (name,) in rows(self.folder / "state", "SELECT owner FROM executions")}

    def owner(self, execution_id: str) -> str:
        """The replica that ran it."""
        ((name,),) = rows(self.folder / "state", f"SELECT owner FROM executions WHERE execution_id = '{execution_id}'")
        return str(name)

    def running_replica(self) -> Served:
        """The one whose program runs: it holds the lock on the folder of the program's owner."""
        ((owner,),) = rows(self.folder / "state", "SELECT owner FROM executions WHERE ended_at IS NULL")
        lock = str(self.folder / "state" / "running" / owner / "lock")
        return next(it for it in self.replicas if lock in map(os.path.realpath, _open_files(it.process.pid)))

    def executions(self) -> list[str]:
        return [it for (it,) in rows(self.folder / "state", "SELECT execution_id FROM executions ORDER BY started_at")]

    def is_call_recorded(self) -> bool:
        """True once the outcome of a call is recorded, which follows its answer within a moment."""
        return bool(rows(self.folder / "state", "SELECT 1 FROM calls WHERE status = 'succeeded'"))

    def statuses(self) -> list[str]:
        return [it for (it,) in rows(self.folder / "state", "SELECT status FROM executions ORDER BY started_at")]


def _open_files(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/fd").iterdir()


@contextmanager
def cluster(path: Path, *, is_forked: bool = False) -> Iterator[Cluster]:
    """`is_forked`: where the processes of the replicas don't matter."""
    with serving(path, is_forked=is_forked) as one, serving(path, is_forked=is_forked) as other:
        for replica in (one, other):
            until(partial(is_ready, replica.port))
        with balanced(one, other) as balancer:
            yield Cluster((one, other), balancer, path.parent)


@contextmanager
def noting(errors: list[BaseException]) -> Iterator[None]:
    """The error of a host whose replica is gone."""
    try:
        yield
    except* Exception as error:  # noqa: BLE001 - which one is the host's business
        errors.append(error)


@pytest.mark.parametrize("more", [{}, {"RESOLVE": "1"}], ids=["addresses", "names"])
def test_the_configuration_is_valid(haproxy: str, more: dict[str, str]) -> None:
    addresses = {"LISTEN": ":8000", "REPLICA_A": "127.0.0.1:1", "REPLICA_B": "127.0.0.1:2"}
    command = (haproxy, "-c", "-f", str(CONFIG))
    done = subprocess.run(command, env={**os.environ, **addresses, **more}, capture_output=True, text=True, check=False)
    warnings = [it for it in (done.stdout + done.stderr).splitlines() if "WARNING" in it]
    # A machine without a network has none.
    assert [it for it in warnings if "no nameservers" not in it or not more] == [], done.stderr
    assert done.returncode == 0, done.stderr


def test_one_address_that_never_ends_its_requests_keeps_no_other_out(tmp_path: Path) -> None:
    """With as many as the balancer holds nobody was served for 30 seconds."""
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with cluster(configured(tmp_path), is_forked=True) as both, ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(4_200):
            with suppress(OSError):  # it may be refused before connect() or sendall() returns
                stranger = held.enter_context(socket.create_connection(("127.0.0.1", both.balancer.port)))
                stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost:")
        transport = httpx2.HTTPTransport(local_address="127.0.0.2")
        with httpx2.Client(transport=transport) as other:
            assert other.get(f"http://127.0.0.1:{both.balancer.port}/healthz").status_code == 200


async def test_sixteen_sessions_of_the_handshakes_era_keep_their_replica(tmp_path: Path) -> None:
    with cluster(configured(tmp_path), is_forked=True) as both:
        ran: dict[int, set[str]] = {}

        async def session(number: int) -> None:
            async with both.host("legacy", f"p{number}") as host:
                ran[number] = {both.owner(await host.execute()) for _ in range(3)}

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(16):
                    tasks.start_soon(session, number)
        assert [len(it) for it in ran.values()] == [1] * 16
        assert len(set.union(*ran.values())) == 2, "both have some"


async def test_a_person_without_a_session_finds_stored_results_in_the_next_program(tmp_path: Path) -> None:
    """They are on the replica that ran the program, so the balancer keeps each person there."""
    with cluster(configured(tmp_path), is_forked=True) as both, anyio.fail_after(120):
        for person in ("ada", "bob", "eve") * 3:
            async with both.host("auto", person) as host:
                name = (await host.run("'x' * 5_000")).content["execution_id"]
            async with both.host("auto", person) as host:
                assert (await host.run(f"from codemode import results\nlen(results[{name!r}])")).value == 5_000
        assert len(both.owners()) == 2, "control"


class _EachInTurn(httpx2.AsyncHTTPTransport):
    """Sends each call of a tool to the other replica than the one before."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._ports, self._calls = ports, 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._calls += b"tools/call" in await request.aread()
        request.url = request.url.copy_with(port=self._ports[self._calls % 2])
        return await super().handle_async_request(request)


@asynccontextmanager
async def in_turn(both: Cluster, **callbacks: Any) -> AsyncIterator[Host]:
    """A host of 2026-07-28 of which no two calls in a row come to the same replica."""
    transport = _EachInTurn([it.port for it in both.replicas])
    async with (
        httpx2.AsyncClient(headers=both.balancer.headers, transport=transport, timeout=60) as http,
        Client(streamable_http_client(both.balancer.url, http_client=http), **callbacks) as client,
    ):
        yield Host(client, both.folder)


async def test_replicas_share_a_limit(tmp_path: Path) -> None:
    code = """
import asyncio
from servers.github import create_issue
await asyncio.gather(*(create_issue(owner='o', repo='r', title=str(n)) for n in range(8)), return_exceptions=True)
"""
    limited = {"rules": [{"allow": "github/create_issue", "limit": "5/hour"}]}
    with cluster(configured(tmp_path, permissions=limited), is_forked=True) as both, anyio.fail_after(120):

        async def run(replica: Served) -> None:
            async with http_host(replica, tmp_path, "auto") as host:
                assert (await host.run(code)).content["status"] == "succeeded"

        async with anyio.create_task_group() as tasks:
            for replica in both.replicas:
                tasks.start_soon(run, replica)
        async with in_turn(both) as host:
            for _ in range(2):
                answer = await host.run("from servers.github import create_issue\ncreate_issue('o', 'r', 'more')")
                assert "its limit of 5/hour is reached; the next call is possible in" in answer.text
    assert len(reached(tmp_path)) == 5
    assert len(both.owners()) == 2, "control"


async def test_a_question_is_answered_at_the_other_replica_than_the_one_that_asked(tmp_path: Path) -> None:
    person = Person(content={"city": "Oslo"})
    answer = {"action": "accept", "content": {"city": "Oslo"}}
    with cluster(configuration(tmp_path, asking(tmp_path, "modern"), state=state(tmp_path)), is_forked=True) as both:
        with anyio.fail_after(60):
            async with in_turn(both, **person.callbacks) as host:
                assert (await ask(host, ASK_CITY)).value == [answer]
                assert (await host.run("1 + 1")).value == 2, "the next question is asked at the other one"
                assert (await ask(host, ASK_CITY)).value == [answer]
            async with both.host("auto", **person.callbacks) as host:
                for _ in range(4):
                    assert (await ask(host, ASK_CITY)).value == [answer]
    assert len(told(tmp_path)) == len(person.seen) == 6
    assert len(both.owners()) == 2


async def test_an_answer_to_a_replica_that_was_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    with cluster(configuration(tmp_path, asking(tmp_path, "modern"), state=state(tmp_path))) as both:
        person = Person(content={"city": "Oslo"})

        async def stop_and_answer(context: Any, params: Any) -> Any:
            process = both.running_replica().process
            process.terminate()
            assert await anyio.to_thread.run_sync(process.wait, 60) == 0
            return await person.elicit(context, params)

        with anyio.fail_after(60):
            async with in_turn(both, elicitation_callback=stop_and_answer) as host:
                answer = await ask(host, ASK_CITY)
    (name,) = both.executions()
    assert f"has ended; go on with it by execute_code(resume={name!r})" in answer.text
    assert both.statuses() == ["waiting"]


async def test_a_program_that_waits_for_a_person_goes_on_at_the_other_replica(tmp_path: Path) -> None:
    asks: dict[str, Any] = {"rules": [{"ask": "github/create_issue"}]}
    path = configured(tmp_path, permissions=asks, approvals={"browser": "never", "answer_seconds": 1})
    with cluster(path, is_forked=True) as both, anyio.fail_after(60):
        async with in_turn(both) as host:
            waiting = (await host.run(creating("t"))).content
            assert (waiting["status"], reached(tmp_path)) == ("waiting", [])
            # Approved before the first replica gives it up, 0.2 s later, it would go on there.
            ended = "SELECT 1 FROM executions WHERE ended_at IS NOT NULL"
            await anyio.to_thread.run_sync(until, lambda: rows(tmp_path / "state", ended))
            assert await approved(tmp_path, KEY["key"]) == 1
            before = both.owner(waiting["execution_id"])
            assert (await host.call("execute_code", resume=waiting["execution_id"])).value == 1
            assert both.owner(waiting["execution_id"]) != before
    assert [it["title"] for it in reached(tmp_path)] == ["t"]


@EACH_ERA
async def test_a_host_that_gives_up_ends_its_program(tmp_path: Path, mode: Mode) -> None:
    """In 2026-07-28 it closes the connection, of which the balancer has to tell the replica."""
    with cluster(configured(tmp_path), is_forked=True) as both, anyio.fail_after(60):
        async with both.host(mode) as host, anyio.create_task_group() as tasks:
            tasks.start_soon(host.run, STAY)
            await anyio.to_thread.run_sync(until, lambda: reached(tmp_path))
            assert both.statuses() == ["running"]
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(until, lambda: both.statuses() == ["cancelled"])


def creating(title: str) -> str:
    return f"""
import asyncio
from servers.github import create_issue
await asyncio.sleep(0.3)
create_issue(owner='o', repo='r', title={title!r})['number']
"""


async def test_a_replica_that_drains_under_load_loses_no_request_and_no_program_runs_twice(tmp_path: Path) -> None:
    """Hosts of 2026-07-28 notice nothing. A session of the handshake's era ends with its replica; what its host is
    refused before has not run."""
    succeeded: list[str] = []
    refused: list[str] = []
    lost: list[BaseException] = []
    with cluster(configured(tmp_path, limits={"programs": 16})) as both:
        first = both.replicas[0]
        is_over = anyio.Event()

        async def run(host: Host, title: str) -> bool:
            """False if it was refused, since the replica is being stopped."""
            answer = await host.run(creating(title))
            is_refused = "nothing of this ran" in answer.text
            (refused if is_refused else succeeded).append(title)
            assert is_refused or isinstance(answer.value, int), answer.text
            return not is_refused

        async def modern(number: int) -> None:
            async with both.host("auto", f"m{number}") as host:
                for count in itertools.count():
                    if is_over.is_set():
                        return
                    assert await run(host, f"modern-{number}-{count}")

        async def legacy(number: int) -> None:
            titles = (f"legacy-{number}-{count}" for count in itertools.count())
            while not is_over.is_set():
                with noting(lost):
                    async with both.host("legacy", f"l{number}") as host:
                        while not is_over.is_set() and await run(host, next(titles)):
                            pass

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(modern, number)
                    tasks.start_soon(legacy, number)
                await anyio.to_thread.run_sync(until, lambda: len(succeeded) >= 8 and len(both.owners()) == 2, 60)
                os.kill(first.process.pid, signal.SIGTERM)
                assert await anyio.to_thread.run_sync(first.process.wait, 60) == 0
                at_end = len(succeeded)
                await anyio.to_thread.run_sync(until, lambda: len(succeeded) >= at_end + 8, 60)
                is_over.set()
    created = [it["title"] for it in reached(tmp_path)]
    assert sorted(created) == sorted(succeeded)
    assert not set(refused) & set(created)
    assert set(both.statuses()) == {"succeeded"}
    assert len(lost) <= 4
    assert all("ession" in repr(it) for it in lost), "a session that ended with its replica"


@EACH_ERA
async def test_a_replica_that_is_killed_costs_its_hosts_an_error_and_nothing_is_sent_again(
    tmp_path: Path, mode: Mode
) -> None:
    """The program is interrupted, and goes on at the other replica when its host resumes it."""
    code = STAY.replace("50", "4")
    with cluster(configured(tmp_path)) as both:
        failures: list[BaseException] = []

        async def run() -> None:
            with noting(failures):
                async with both.host(mode) as host:
                    await host.run(code)

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await anyio.to_thread.run_sync(until, both.is_call_recorded)
                both.running_replica().process.kill()
            assert failures
            async with both.host("legacy") as host:
                assert (await host.run("6 * 7")).value == 42
                assert len(reached(tmp_path)) == 1, "the balancer sent nothing again"
                resumed = await host.call("execute_code", resume=both.executions()[0])
                assert resumed.content["status"] == "succeeded"
