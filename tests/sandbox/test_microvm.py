"""What only the microVM backend has: real processes and threads, a stream that must not stall, machines that boot, die,
age, and may be left behind."""

# ruff: noqa: E501 - short programs read best on one line; the files are small

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.sandbox.contract import Ending, Outcome, Reply, SandboxBackend
from codemode_server.sandbox.registry import SandboxSettings
from tests.sandbox.lab import MICROVM, SLOWNESS, Lab, Tools
from tests.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), *MICROVM]
ECHO = "from servers.github import echo\n"
BOOT_ID = "open('/proc/sys/kernel/random/boot_id').read().strip()"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def backend(microsandbox: SandboxBackend) -> SandboxBackend:
    return microsandbox


def made(workspace: Path | None, **settings: Any) -> Any:
    """A backend of one's own, which boots nothing ahead of need but the first machine."""

    from codemode_server.config.settings import LimitSettings
    from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend

    chosen = {"backend": "microsandbox", "image": os.environ["CODEMODE_VM_IMAGE"], "warm": 0, **settings}
    return MicrovmBackend(SandboxSettings.model_validate(chosen), LimitSettings(), workspace)


@asynccontextmanager
async def another(workspace: Path, **settings: Any) -> AsyncIterator[Lab]:
    """A lab on a backend of its own, as another product on this machine has it."""
    backend = made(workspace, **settings)
    async with anyio.create_task_group() as tasks:
        try:
            await backend.start()
            tasks.start_soon(backend.tend)
            yield Lab(backend, workspace)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await backend.aclose()


def machines_of(lab: Lab, session: str = "lab") -> list[str]:
    """The names of the machines that are kept for a session."""
    backend: Any = lab.backend
    return [machine.name for machine in backend.pool.of_sessions.get((session, lab.workspace), [])]


def processes_of(name: str) -> list[int]:
    """The processes on this machine that were started for a microVM."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and int(entry.name) != os.getpid() and any(name.encode() in word for word in words):
                found.append(int(entry.name))
    return found


async def until_gone(name: str) -> None:
    await until(lambda: not processes_of(name), 10 + 5 * SLOWNESS)


class Watched(Tools):
    """Says when a call has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.has_arrived = anyio.Event()

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False, **_: Any) -> Reply:
        self.has_arrived.set()
        return await super().call(server, tool, arguments, raw=raw)


# The stream between host and guest.


async def test_texts_of_thirteen_megabytes_go_each_way(lab: Lab) -> None:
    """Four of them, or one where the machine is emulated, which takes minutes for each."""
    texts = 1 if SLOWNESS > 1 else 4
    code = f"""
{ECHO}
sizes = []
for number in range({texts}):
    text = f"{{number:07}} " * (25 * 2**16)
    sizes.append(len(text) if echo(text=text) == {{"text": text}} else 0)
sizes
"""
    tools = Tools()
    assert await lab.value(code, tools, upstream_seconds=150.0 * SLOWNESS) == [25 * 2**19] * texts
    assert sum(len(arguments["text"]) for _, _, arguments in tools.calls) == texts * 25 * 2**19


async def test_a_guest_that_never_reads_is_ended_and_holds_up_nobody(lab: Lab) -> None:
    """It asks for much and stops itself. The answers find no reader, and the other session is served meanwhile."""
    code = (
        lab.raw
        + """
import os, signal
for number in range(1, 5): send(op="call", id=number, server="github", tool="rows", arguments={"count": 5_000})
os.kill(os.getpid(), signal.SIGSTOP)
"""
    )
    outcomes: list[Outcome] = []
    tools = Watched()

    async def never_reads() -> None:
        outcomes.append(await lab.run(code, tools, wall_seconds=6.0 * SLOWNESS))

    await lab.value("1", session="other")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(never_reads)
        await tools.has_arrived.wait()
        assert await lab.value("6 * 7", session="other") == 42
        assert outcomes == []
    assert outcomes[0].ending is Ending.LIMITED, outcomes[0]
    assert outcomes[0].error is not None
    assert outcomes[0].error.setting == "limits.wall_seconds"
    assert await lab.value("6 * 7") == 42
    await lab.end("other")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("raw._stream.shutdown(socket.SHUT_RDWR)", id="closed"),
        pytest.param("raw._stream.shutdown(socket.SHUT_WR)", id="closed for writing"),
        pytest.param("os._exit(3)", id="exit with a status"),
        pytest.param("os.kill(os.getpid(), 9)", id="killed"),
        pytest.param("os.execv('/bin/sleep', ['sleep', '1000'])", id="another program in its place"),
    ],
)
async def test_a_guest_that_closes_its_end_has_died_and_its_machine_goes_on(lab: Lab, end: str) -> None:
    boot = await lab.value(BOOT_ID)
    tools = Tools()
    code = f"{lab.raw}\nimport os, socket, time\n{ECHO}echo(a=1)\nprint('before')\n{end}\ntime.sleep(1_000)"
    outcome = await lab.run(code, tools)
    assert outcome.ending is Ending.DIED, outcome
    assert outcome.error is not None
    assert "ended under the program" in outcome.error.message
    assert (outcome.stdout, len(tools.calls)) == ("before\n", 1)
    assert await lab.value(BOOT_ID) == boot


# Machines that die, and products that do.


async def test_a_machine_killed_in_mid_call_is_told_and_the_next_program_has_another(lab: Lab) -> None:
    boot = await lab.value(BOOT_ID, session="doomed")
    (name,) = machines_of(lab, "doomed")
    found = processes_of(name)
    assert found
    tools = Watched()

    async def kill() -> None:
        await tools.has_arrived.wait()
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill)
        outcome = await lab.run("from servers.github import forever\nforever()", tools, session="doomed")
    assert outcome.ending is Ending.DIED, outcome
    assert outcome.error is not None
    assert "microVM" in outcome.error.message
    assert (tools.here, len(tools.calls)) == (0, 1)
    assert await lab.value(BOOT_ID, session="doomed") != boot
    await until_gone(name)
    await lab.end("doomed")


HOST = """
import asyncio, os, sys
from pathlib import Path
from tests.sandbox.lab import Lab
from tests.sandbox.test_microvm import Watched, made
async def main():
    workspace = Path(sys.argv[1])
    backend, tools = made(workspace), Watched()
    await backend.start()
    print(backend.pool.spare[0].name, flush=True)
    running = asyncio.create_task(Lab(backend, workspace).run("from servers.github import forever\\nforever()", tools))
    await asyncio.wait([running, asyncio.create_task(tools.has_arrived.wait())], return_when="FIRST_COMPLETED")
    print("called", flush=True)
    await running
asyncio.run(main())
"""


@asynccontextmanager
async def another_product(workspace: Path) -> AsyncIterator[tuple[anyio.abc.Process, str]]:
    """A process of its own in the midst of a call, and the name of its machine."""
    async with await anyio.open_process([sys.executable, "-c", HOST, str(workspace)], stderr=None, cwd=ROOT) as host:
        try:
            assert host.stdout is not None
            said = b""
            with anyio.fail_after(60 + 20 * SLOWNESS):
                while b"called" not in said:
                    said += await host.stdout.receive()
            yield host, said.split()[0].decode()
        finally:
            with contextlib.suppress(ProcessLookupError):
                host.kill()


async def test_a_killed_product_leaves_no_machine_and_the_next_one_tidies_up_after_it_alone(
    lab: Lab, workspace: Path
) -> None:
    """Of what is in the runtime's books: not what somebody else has made, nor what another product uses."""
    from microsandbox import Network, Sandbox

    boot = await lab.value(BOOT_ID)
    foreign = f"somebody-elses-{os.getpid()}-{time.time_ns()}"
    theirs = await Sandbox.create(
        foreign, image=os.environ["CODEMODE_VM_IMAGE"], memory=256, cpus=1, network=Network.none()
    )
    try:
        async with another_product(workspace) as (host, name):
            assert processes_of(name)
            assert name in await names()
            host.kill()
            await host.wait()
            await until_gone(name)
        async with another(workspace):
            left = await names()
            assert name not in left
            assert {foreign, *machines_of(lab)} <= set(left)
            assert processes_of(foreign)
            assert await lab.value(BOOT_ID) == boot
    finally:
        await theirs.kill()
        await Sandbox.remove(foreign)


async def names() -> list[str]:
    from microsandbox import Sandbox

    return [box.name for box in (await Sandbox.list()).sandboxes]


# What a program can do here and nowhere else.


async def test_programs_may_run_others_and_what_they_print_is_the_programs(lab: Lab) -> None:
    code = """
import asyncio, os, subprocess
print("first")
subprocess.run(["sh", "-c", "echo second; echo aside >&2"], check=True)
os.system("echo third")
process = await asyncio.create_subprocess_exec("sh", "-c", "read x; echo got $x", stdin=-1, stdout=-1)
out, _ = await process.communicate(b"it\\n")
out.decode()
"""
    outcome = await lab.run(code)
    assert outcome.value == "got it\n", outcome
    assert sorted(outcome.stdout.split()) == ["first", "second", "third"]
    assert outcome.stderr == "aside\n"


async def test_a_forked_process_is_told_that_it_has_no_tools(lab: Lab) -> None:
    code = f"""
{ECHO}
import os
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        echo(a=1)
    except RuntimeError as error:
        os.write(writing, str(error).encode())
    os._exit(0)
os.wait()
[os.read(reading, 1_000).decode(), echo(a=2)]
"""
    tools = Tools()
    said, came = await lab.value(code, tools)
    assert "forked process can't call tools" in said
    assert (came, len(tools.calls)) == ({"a": 2}, 1)


async def test_memory_is_limited_for_a_programs_processes_too(lab: Lab) -> None:
    code = """
import subprocess, sys
done = subprocess.run([sys.executable, "-c", "x = bytearray(300 * 2**20)\\nprint(len(x))"], capture_output=True, text=True)
small = subprocess.run([sys.executable, "-c", "x = bytearray(20 * 2**20)\\nprint(len(x))"], capture_output=True, text=True)
[done.returncode != 0, "MemoryError" in done.stderr, small.stdout]
"""
    assert await lab.value(code, memory_mb=128) == [True, True, f"{20 * 2**20}\n"]
