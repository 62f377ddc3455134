"""Sandbox nodes: real processes that are killed, stopped and attacked while programs run on them. The suite of all
backends runs on a node as well; here is what only a node can do to a program, and the network to a node."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from codemode_server import __version__
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.processes.stream_readers import framed
from codemode_server.sandbox.backends.remote import backend as remote
from codemode_server.sandbox.backends.remote.backend import RemoteBackend, diagnose
from codemode_server.sandbox.contract import Ending, Limits, Outcome, Program, Reply, started
from codemode_server.sandbox.registry import SandboxSettings
from tests.processes import all_gone
from tests.sandbox.lab import Tools
from tests.sandbox.nodes import TOKEN, RunningNode, node
from tests.waiting import until

CALLS = "from servers.github import list_issues, forever\nlist_issues(repo='a')\n"


def settings(*nodes: RunningNode, token: str = TOKEN, ca: Path | None = None) -> SandboxSettings:
    addresses = tuple(it.address for it in nodes)
    return SandboxSettings(backend="remote", nodes=addresses, node_token=token, node_ca=str(ca) if ca else None)


@asynccontextmanager
async def replica(configured: SandboxSettings, workspace: Path | None = None) -> AsyncIterator[RemoteBackend]:
    backend = await started(RemoteBackend(configured, workspace))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(backend.tend)
        yield backend
        tasks.cancel_scope.cancel()
    await backend.aclose()


def program(code: str, workspace: Path | None = None, session: str = "s") -> Program:
    return Program(ExecutionId("x0"), code, Limits(), workspace, session_id=session)


async def run(backend: RemoteBackend, code: str, tools: Tools | None = None, workspace: Path | None = None) -> Outcome:
    with anyio.fail_after(60):
        return await backend.run(program(code, workspace), tools or Tools())


class TestProgramsOnNodes:
    async def test_programs_of_one_moment_run_on_both_nodes(self) -> None:
        """The node with the fewest programs is next; each session of its own would else be anywhere."""
        async with node() as one, node() as two, replica(settings(one, two)) as backend:
            tools, outcomes = Tools(), list[Outcome]()

            async def meet() -> None:
                outcomes.append(await run(backend, "from servers.github import meet\nmeet(n=1, company=2)['n']", tools))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(meet)
                tasks.start_soon(meet)
                await until(lambda: sorted(backend._running.values()) == [1, 1])
            assert [it.value for it in outcomes] == [1, 1]
            assert tools.most_here == 2

    async def test_a_full_node_is_passed_over_and_one_that_is_gone_too(self) -> None:
        async with (
            node("--programs", "1") as small,
            node() as other,
            node() as gone,
            replica(settings(small, other, gone)) as backend,
        ):
            gone.signal(signal.SIGKILL)
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(run, backend, f"{CALLS}forever()")
                await until(lambda: sorted(backend._running.values())[-2:] == [1, 3])
                tasks.cancel_scope.cancel()
            assert (await run(backend, "1 + 1")).value == 2

    async def test_where_all_nodes_are_full_a_program_waits_for_a_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each server gives out as many places as it may use alone, and knows nothing of the others."""
        go_on = anyio.Event()

        class Held(Tools):
            async def _answer(self, server: str, tool: str, arguments: dict[str, object]) -> Reply:
                await go_on.wait()
                return await super()._answer(server, tool, arguments)

        async with node("--programs", "1") as only, replica(settings(only)) as one, replica(settings(only)) as other:
            tools, outcomes = Held(), list[Outcome]()

            async def waits() -> None:
                outcomes.append(await run(other, "1 + 1"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, one, "from servers.github import list_issues\nlist_issues(repo='a')", tools)
                await until(lambda: bool(tools.calls))
                monkeypatch.setattr(remote, "_BUSY_SECONDS", -1.0)
                with pytest.raises(SandboxUnavailable, match="it runs 1 programs already"):
                    await run(other, "1 + 1")
                monkeypatch.setattr(remote, "_BUSY_SECONDS", 60.0)
                tasks.start_soon(waits)
                await until(lambda: other._waiting.locked())
                go_on.set()
            assert [it.value for it in outcomes] == [2]

    async def test_programs_that_wait_for_a_place_get_it_as_soon_as_one_of_their_replica_has_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remote, "_BUSY_SECONDS", 600.0)
        monkeypatch.setattr(remote, "_RETRY_SECONDS", 600.0)
        async with node("--programs", "1") as only, replica(settings(only)) as backend:
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(run, backend, "1 + 1")
            assert (await run(backend, "1 + 1")).value == 2

    async def test_without_a_node_programs_are_refused_and_the_reason_is_said(self) -> None:
        async with node() as only, replica(settings(only)) as backend:
            only.signal(signal.SIGKILL)
            await only.process.wait()
            with pytest.raises(SandboxUnavailable, match=r"no sandbox node takes the program: .*Connect call failed"):
                await run(backend, "1 + 1")
        with pytest.raises(SandboxUnavailable, match="no sandbox node can be used"):
            await started(RemoteBackend(settings(only), None))

    async def test_a_name_stands_for_all_its_addresses_also_for_those_that_it_gets_later(
        self, certificates: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever starts nodes publishes them in DNS; the servers look names up again every few seconds."""
        pem = certificates["elsewhere"]
        addresses = ["127.0.0.1"]

        def resolved(host: str | bytes, port: int, *options: Any, **named: Any) -> list[Any]:
            names = addresses if host == b"node.example" else [host]
            return [entry for name in names for entry in resolve(name, port, *options, **named)]

        resolve = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        async with node("--certificate", pem, host="node.example") as one, replica(settings(one, ca=pem)) as backend:
            assert (await run(backend, "1 + 1")).value == 2
            options = ("--certificate", pem, "--host", "127.0.0.2", "--port", str(one.port))
            async with node(*options), anyio.create_task_group() as tasks:
                addresses.append("127.0.0.2")
                tasks.start_soon(run, backend, f"{CALLS}forever()")
                with anyio.fail_after(60):
                    while {it.address for it in backend._running} != {*addresses}:
                        assert (await run(backend, "1 + 1")).value == 2
                tasks.cancel_scope.cancel()


class TestStop:
    async def test_sigterm_lets_the_programs_of_a_node_end_and_sends_new_ones_to_the_others(self) -> None:
        async with node() as one, node() as two, replica(settings(one, two)) as backend:
            tools, outcomes = Tools(), list[Outcome]()

            async def meet(company: int) -> None:
                code = f"from servers.github import meet\nmeet(n=1, company={company})['n']"
                outcomes.append(await run(backend, code, tools))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(meet, 2)
                await until(lambda: bool(tools.calls))
                (busy,) = [it.port for it, count in backend._running.items() if count]
                leaving, other = (one, two) if busy == one.port else (two, one)
                leaving.signal(signal.SIGTERM)
                await until(lambda: not listens(leaving.port))
                assert (await run(backend, "1 + 1")).value == 2
                assert outcomes == []
                tasks.start_soon(meet, 2)
            assert [it.value for it in outcomes] == [1, 1]
            with anyio.fail_after(60):
                assert await leaving.process.wait() == 0
            assert listens(other.port)

    async def test_a_second_sigterm_ends_the_programs(self) -> None:
        tools = Tools()
        async with node() as one, replica(settings(one)) as backend:
            outcomes = list[Outcome]()

            async def running() -> None:
                outcomes.append(await run(backend, f"{CALLS}forever()", tools))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(running)
                await until(lambda: len(tools.calls) == 2)
                one.signal(signal.SIGTERM)
                await until(lambda: not listens(one.port))
                one.signal(signal.SIGTERM)
            assert outcomes[0].ending is Ending.DIED


def listens(port: int) -> bool:
    """On 127.0.0.1, by the kernel's list: a connection of a test would be one more of the node."""
    entries = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(it[1] == f"0100007F:{port:04X}" and it[3] == "0A" for it in entries)


class TestDeath:
    async def test_a_killed_node_ends_its_program_at_once_and_it_runs_nowhere_else(self) -> None:
        tools = Tools()
        async with node() as one, node() as two, replica(settings(one, two)) as backend:
            nodes = {one.port: one, two.port: two}
            outcome = await self._ended_while_running(backend, nodes, tools, signal.SIGKILL)
        assert outcome.ending is Ending.DIED
        assert outcome.error is not None
        assert (
            outcome.error.message
            == "the sandbox ended under the program: the sandbox node: it has closed the connection"
        )
        assert [tool for _, tool, _ in tools.calls] == ["list_issues"]

    async def test_a_stopped_node_ends_its_program_by_the_missing_heartbeat(self) -> None:
        """Its system still acknowledges what is sent to it: only the missing heartbeat tells."""
        tools = Tools()
        async with node() as one, replica(settings(one)) as backend:
            outcome = await self._ended_while_running(backend, {one.port: one}, tools, signal.SIGSTOP)
        assert outcome.ending is Ending.DIED
        assert outcome.error is not None
        assert outcome.error.message.endswith("it does not answer")
        assert [tool for _, tool, _ in tools.calls] == ["list_issues"]

    async def test_a_stopped_node_is_tried_after_the_others(self) -> None:
        async with node() as one, node() as two, replica(settings(one, two)) as backend:
            one.signal(signal.SIGSTOP)
            assert (await run(backend, "1 + 1")).value == 2
            with anyio.fail_after(60):  # tried first each time, it would take three seconds of each
                assert [(await run(backend, "1 + 1")).value for _ in range(25)] == [2] * 25

    async def test_a_program_that_waits_for_a_call_for_longer_than_the_patience_goes_on(self) -> None:
        """The control: heartbeats come while neither end has anything to say."""

        class Slow(Tools):
            async def _answer(self, server: str, tool: str, arguments: dict[str, object]) -> object:  # type: ignore[override]
                await anyio.sleep(6)
                return await super()._answer(server, tool, arguments)

        async with node() as one, replica(settings(one)) as backend:
            assert (await run(backend, f"{CALLS}5", Slow())).value == 5

    async def test_when_the_replica_is_killed_the_nodes_worker_is_gone(self) -> None:
        code = """
import anyio
from tests.sandbox.test_remote import CALLS, RunningNode, replica, run, settings
async def main():
    async with replica(settings(RunningNode(None, int(__import__("sys").argv[1])))) as backend:
        print("begins", flush=True)
        await run(backend, "while True: pass")
anyio.run(main)
"""
        async with node() as one:
            idle = one.workers()
            process = await anyio.open_process([sys.executable, "-c", code, str(one.port)], stderr=None)
            try:
                assert process.stdout is not None
                await process.stdout.receive()
                (worker,) = idle
                ticks = Path(f"/proc/{worker}/stat")
                await until(lambda: int(ticks.read_text().split()[13]) > 50)  # it computes
                process.kill()
                await all_gone(worker)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.aclose()

    async def test_a_program_that_reads_nothing_is_given_up_soon_after_its_limit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its node waits until it reads, and so reads nothing of its replica either."""
        monkeypatch.setattr(remote, "_END_SECONDS", 600.0)
        code = """
import asyncio
from servers.github import rows
calls = [asyncio.create_task(rows(count=3_000)) for _ in range(4)]
await asyncio.sleep(0)
while True: pass"""
        async with node("--programs", "1") as one, replica(settings(one)) as backend:
            (worker,) = one.workers()
            tools = Tools()
            with anyio.fail_after(60):
                outcome = await backend.run(replace(program(code), limits=Limits(wall_seconds=3)), tools)
            assert len(tools.calls) > 0
            assert outcome.error is not None
            assert outcome.error.setting == "limits.wall_seconds"
            await all_gone(worker)
            assert (await run(backend, "1 + 1")).value == 2

    async def test_a_program_that_is_cancelled_is_gone_and_its_node_takes_the_next(self) -> None:
        async with node("--programs", "1") as one, replica(settings(one)) as backend:
            (worker,) = one.workers()
            with anyio.move_on_after(1):
                await run(backend, "while True: pass")
            await all_gone(worker)
            assert (await run(backend, "1 + 1")).value == 2

    async def _ended_while_running(
        self, backend: RemoteBackend, nodes: dict[int, RunningNode], tools: Tools, number: signal.Signals
    ) -> Outcome:
        """Do this to the node that runs a program; gives its outcome."""
        outcomes = list[Outcome]()

        async def running() -> None:
            outcomes.append(await run(backend, f"{CALLS}while True: pass", tools))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running)
            await until(lambda: bool(tools.calls))
            await anyio.sleep(0.2)
            (port,) = [it.port for it, count in backend._running.items() if count]
            nodes[port].signal(number)
        return outcomes[0]


class TestWorkspace:
    async def test_files_stay_in_a_folder_that_replica_and_node_share(self, tmp_path: Path) -> None:
        workspace = tmp_path / "default"
        workspace.mkdir()
        async with node("--workspaces", tmp_path) as one, replica(settings(one), workspace) as backend:
            await run(backend, "open('/workspace/a', 'w').write('kept')", workspace=workspace)
            assert (workspace / "a").read_text() == "kept"

    async def test_without_one_a_program_has_no_workspace_and_is_told_so(self, tmp_path: Path) -> None:
        """An empty one in its place would lose what a program believes to have stored."""
        async with node() as one, replica(settings(one), tmp_path) as backend:
            assert (await run(backend, "1 + 1", workspace=tmp_path)).value == 2
            outcome = await run(backend, "open('/workspace/a', 'w')", workspace=tmp_path)
            assert outcome.error is not None
            assert outcome.error.type == "FileNotFoundError"
            assert outcome.error.hint.startswith("this program has no /workspace")
            (check,) = (await diagnose(settings(one))).checks
            assert check.message == "wasm, without a shared workspace"

    @pytest.mark.parametrize("name", ["..", "a/../../b", "/etc", "link", "missing", "file", ".", ""])
    async def test_no_folder_but_one_in_the_root_is_opened(self, tmp_path: Path, name: str) -> None:
        """Neither a path that leads out of it nor a link: the frame of a replica names a folder, and no place."""
        root = tmp_path / "root"
        root.mkdir()
        (tmp_path / "outside").mkdir()
        (root / "link").symlink_to(tmp_path / "outside")
        (root / "file").touch()
        async with node("--workspaces", root) as one:
            async with spoken(one) as stream:
                await stream.send(message(TOKEN) + message(request(workspace=name)))
                assert "is not in its --workspaces" in await answer(stream)
            (root / "default").mkdir()
            async with spoken(one) as stream:  # the control
                await stream.send(message(TOKEN) + message(request(workspace="default")))
                assert '"problem":""' in await answer(stream)


def message(text: str | bytes, kind: int = 1) -> bytes:
    return bytes([kind]) + framed(text.encode() if isinstance(text, str) else text)


def request(version: str = __version__, workspace: str | None = None) -> str:
    folder = "null" if workspace is None else f'"{workspace}"'
    return f'{{"version": "{version}", "limits": {{}}, "workspace": {folder}}}'


LOOK = f'{{"version": "{__version__}"}}'


@asynccontextmanager
async def spoken(to: RunningNode) -> AsyncIterator[ByteStream]:
    async with await anyio.connect_tcp("127.0.0.1", to.port) as stream:
        yield stream


async def answer(stream: ByteStream, seconds: float = 60) -> str:
    """What comes until the other end closes, or sends a whole message."""
    said = b""
    with anyio.fail_after(seconds):
        try:
            while len(said) < 5 or len(said) < 5 + int.from_bytes(said[1:5], "big") or said[0] == 2:
                said = said[5:] if said[:1] == b"\2" else said
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
    return said[5:].decode("utf-8", "replace")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """PEM files, each with its key: for 127.0.0.1, another for it, and one for another name."""
    folder = tmp_path_factory.mktemp("tls")
    made = {"own": "IP:127.0.0.1", "foreign": "IP:127.0.0.1", "elsewhere": "DNS:node.example"}
    for name, subject in made.items():
        path = str(folder / f"{name}.pem")
        kind = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=node"
        named = ["-keyout", path, "-out", f"{path}.crt", "-addext", f"subjectAltName={subject}"]
        subprocess.run(["openssl", *kind.split(), *named], check=True, capture_output=True)
        Path(path).write_text(Path(path).read_text() + Path(f"{path}.crt").read_text())
    return {name: folder / f"{name}.pem" for name in made}


class TestWhoIsServed:
    @pytest.mark.parametrize(
        "sent",
        [
            message("another-token-of-the-tests-0123"),
            message(""),
            message(TOKEN[:-1]),
            message(TOKEN + "0"),
            message(request()),
            message(TOKEN, kind=0),
            message("", kind=2) + message(TOKEN),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\1\xff\xff\xff\xff",
            bytes(range(256)) * 100,
        ],
    )
    async def test_without_the_token_nothing_is_served(self, sent: bytes) -> None:
        async with node() as one:
            async with spoken(one) as stream:
                await stream.send(sent + message(LOOK))
                said = await answer(stream)
                assert '"problem":""' not in said
                assert said == "" or "the token is not that of the node" in said
            async with spoken(one) as stream:  # the control
                await stream.send(message(TOKEN) + message(LOOK))
                assert '"problem":""' in await answer(stream)

    async def test_a_replica_with_another_token_or_version_is_told_so(self) -> None:
        async with node() as one:
            with pytest.raises(SandboxUnavailable, match="the token is not that of the node"):
                await started(RemoteBackend(settings(one, token="b" * 32), None))
            async with spoken(one) as stream:
                await stream.send(message(TOKEN) + message('{"version": "0.0.1"}'))
                assert f"it runs codemode-server {__version__}, and this is 0.0.1" in await answer(stream)

    async def test_a_slow_client_is_dropped(self) -> None:
        async with node() as one, spoken(one) as stream:
            sent = list[int]()

            async def drip() -> None:
                for byte in message("x" * 900):
                    await stream.send(bytes([byte]))
                    with anyio.move_on_after(0.5):
                        await stream.receive()
                    sent.append(byte)

            with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await drip()
            assert sent, "control: it has some time"

    async def test_a_thousand_connections_without_the_token_keep_no_replica_out(self) -> None:
        """The oldest of those that have not shown it make room, so the node never holds more than a few."""
        async with node() as one, replica(settings(one)) as backend:
            strangers = list[socket.socket]()
            try:
                for _ in range(1_000):
                    strangers.append(socket.create_connection(("127.0.0.1", one.port)))
                    await anyio.lowlevel.checkpoint()
                for _ in range(3):
                    assert (await run(backend, "1 + 1")).value == 2
                files = Path(f"/proc/{one.process.pid}/fd")
                await until(lambda: len(list(files.iterdir())) < 150)
            finally:
                for stranger in strangers:
                    stranger.close()

    async def test_garbage_after_the_token_ends_that_connection_alone(self) -> None:
        async with node() as one, replica(settings(one)) as backend:
            for sent in (
                message("[]"),
                message("{"),
                message("x" * 300_000),
                b"\7\xff\xff\xff\xff",
                message("{}", kind=0),
            ):
                async with spoken(one) as stream:
                    with suppress(anyio.BrokenResourceError):  # it is cut off before all has been sent
                        await stream.send(message(TOKEN) + sent)
                    assert await answer(stream) == ""
            async with spoken(one) as stream:
                await stream.send(message(TOKEN) + message(request()))
                assert '"problem":""' in await answer(stream)
                await stream.send(b"\0\xff\xff\xff\xff")
                await answer(stream)
            assert (await run(backend, "1 + 1")).value == 2


class TestTls:
    async def test_programs_run_over_tls_with_the_certificate_that_the_replica_trusts(
        self, certificates: dict[str, Path]
    ) -> None:
        own = certificates["own"]
        async with node("--certificate", own) as one, replica(settings(one, ca=own)) as backend:
            assert (await run(backend, f"{CALLS}7")).value == 7
            (link,) = [backend._tls]
            assert link.verify_mode is ssl.CERT_REQUIRED

    @pytest.mark.parametrize(("shown", "problem"), [("foreign", "self-signed"), ("elsewhere", "127.0.0.1")])
    async def test_another_certificate_gets_neither_the_token_nor_a_program(
        self, certificates: dict[str, Path], shown: str, problem: str
    ) -> None:
        trusted = certificates["elsewhere" if shown == "elsewhere" else "own"]
        async with node("--certificate", certificates[shown]) as one:
            with pytest.raises(SandboxUnavailable, match=f"its certificate is not trusted: .*{problem}"):
                await started(RemoteBackend(settings(one, ca=trusted), None))

    async def test_plain_text_gets_nothing_from_a_node_with_tls(self, certificates: dict[str, Path]) -> None:
        async with node("--certificate", certificates["own"]) as one, spoken(one) as stream:
            await stream.send(message(TOKEN) + message(LOOK))
            assert "problem" not in await answer(stream)

    @pytest.mark.parametrize(("host", "token"), [("0.0.0.0", TOKEN), ("127.0.0.1", "short")])
    def test_a_node_that_others_could_listen_to_or_guess_does_not_start(self, host: str, token: str) -> None:
        command = [sys.executable, "-m", "codemode_server", "node", "--port", "0", "--host", host]
        done = subprocess.run(command, env={"CODEMODE_NODE_TOKEN": token}, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert ("needs TLS" if token == TOKEN else "at least 16 characters") in done.stderr
