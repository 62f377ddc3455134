"""What only the wasm backend has: the component and its native code, worker processes, the build."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import wasmtime

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.processes import file_lock
from codemode_server.sandbox import registry
from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.sandbox.backends.wasm import backend as backend_module
from codemode_server.sandbox.backends.wasm import build, component
from codemode_server.sandbox.contract import Ending, Limits, Program, Reply, SandboxBackend
from tests.processes import all_gone, is_gone
from tests.sandbox.lab import RAW, Lab, Tools, pids_of, workers
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="owners and signals are as on posix")]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A component that compiles at once."""
    path = tmp_path / "tiny.wasm"
    path.write_bytes(wasmtime.wat2wasm("(component)"))
    return path


def one_program(code: str, **limits: float) -> Program:
    return Program(ExecutionId("x0"), code, Limits(**limits))  # type: ignore[arg-type]


def test_native_code_is_made_once_and_for_its_owner_only(tiny: Path, tmp_path: Path) -> None:
    said: list[str] = []
    first = component.native_code(tiny, tmp_path / "cache", said.append)
    stamp = first.stat().st_mtime_ns
    assert component.native_code(tiny, tmp_path / "cache", said.append) == first
    assert first.stat().st_mtime_ns == stamp
    assert (first.stat().st_mode & 0o777, first.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (first.parent / "compile.lock").unlink()
    assert component.native_code(tiny, tmp_path / "cache", said.append) == first
    assert [it.name for it in first.parent.iterdir() if it.suffix == ".lock"] == [], "nothing is written any more"
    assert len([line for line in said if line.startswith("compiling the sandbox for this machine, once")]) == 1


async def test_who_waits_for_the_compile_of_another_says_so_and_uses_what_that_made(tiny: Path, tmp_path: Path) -> None:
    cache, said, found = tmp_path / "cache", list[str](), list[Path]()
    cache.mkdir(mode=0o700)
    waiting = threading.Thread(target=lambda: found.append(component.native_code(tiny, cache, said.append)))
    with file_lock.held(cache / "compile.lock"):
        component.start_compiling(tiny, cache)
        assert not list(cache.glob("*.cwasm")), "another one is compiling"
        waiting.start()
        await until(lambda: said != [])
        assert said[0].startswith("compiling the sandbox")
    await until(lambda: found != [])
    component.start_compiling(tiny, cache)
    assert list(cache.glob("*.cwasm")) == found


@pytest.mark.parametrize(
    ("settings", "has_microvms", "is_early"),
    [({}, False, True), ({}, True, False), ({"require": "microvm"}, False, False), ({"backend": "wasm"}, True, True)],
)
async def test_the_sandbox_is_compiled_early_where_programs_run_in_it(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, has_microvms: bool, is_early: bool
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(component, "cache_folder", lambda: cache)
    monkeypatch.setattr(component, "checked_component", lambda: tiny)
    monkeypatch.setattr(runtime, "is_expected", lambda: has_microvms)
    registry.compile_early(registry.SandboxSettings(**settings))
    if is_early:
        await until(lambda: component.is_compiled(tiny, cache))
    assert cache.exists() == is_early


def test_a_python_that_can_not_decompress_the_component_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "guest.wasm.xz"
    packed.touch()
    monkeypatch.setattr(build, "is_current", lambda _: True)
    assert component.checked_component(packed) == packed
    monkeypatch.setitem(sys.modules, "_lzma", None)
    with pytest.raises(SandboxUnavailable, match=r"built without `lzma`.*liblzma-dev"):
        component.checked_component(packed)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.chmod(0o666), id="others can write it"),
        pytest.param(
            lambda path: (path.rename(path.with_suffix(".x")), path.symlink_to(path.with_suffix(".x"))), id="a link"
        ),
    ],
)
def test_native_code_that_can_not_be_trusted_is_made_again(tiny: Path, tmp_path: Path, spoil: object) -> None:
    native = component.native_code(tiny, tmp_path / "cache", lambda _: None)
    good = native.read_bytes()
    assert callable(spoil)
    spoil(native)
    assert component.native_code(tiny, tmp_path / "cache", lambda _: None) == native
    assert not native.is_symlink()
    assert native.stat().st_mode & 0o777 == 0o600
    assert len(native.read_bytes()) == len(good)


@pytest.mark.slow
def test_a_product_that_is_killed_while_it_compiles_leaves_the_compiled_sandbox(tmp_path: Path) -> None:
    """A host with short sessions would compile each time otherwise, for nothing."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from codemode_server.sandbox.backends.wasm import build, component\n"
        "component.start_compiling(build.COMPONENT, Path(sys.argv[1]))\n"
        "print('begun', flush=True); time.sleep(600)"
    )
    cache = tmp_path / "cache"
    killed = subprocess.Popen([sys.executable, "-c", code, str(cache)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "begun\n"
    killed.kill()
    killed.wait()
    killed.stdout.close()
    with file_lock.held(cache / "compile.lock"):  # the compile has ended
        assert component.is_compiled(build.COMPONENT, cache)
    assert component.native_code(build.COMPONENT, cache, print).stat().st_size > 10_000_000
    assert list(cache.glob("compiling-*")) == []


@pytest.mark.parametrize("stamp", ['{"sources": "other"}', "no json"])
def test_a_component_of_other_sources_is_not_run(tmp_path: Path, stamp: str) -> None:
    made = tmp_path / "guest.wasm"
    made.write_bytes(b"x")
    build.stamp_path(made).write_text(stamp)
    with pytest.raises(SandboxUnavailable, match=r"older than sandbox/guest.*run: make setup"):
        component.checked_component(made)


def test_native_code_is_on_disk_before_it_has_its_name(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut would leave a torn file, with which no program would ever run again."""
    monkeypatch.setattr("sys.argv", ["worker.py", "compile", str(component.wasmtime_folder())])
    compile_component = runpy.run_path(str(component.WORKER))["compile_component"]
    steps: list[tuple[str, int]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(file: int) -> None:
        steps.append(("fsync", os.fstat(file).st_size))
        fsync(file)

    def noted_replace(old: str, new: str) -> None:
        steps.append(("replace", Path(old).stat().st_size))
        replace(old, new)

    monkeypatch.setattr("os.fsync", noted_fsync)
    monkeypatch.setattr("os.replace", noted_replace)
    compile_component(str(tiny), str(tmp_path / "native"))
    size = (tmp_path / "native").stat().st_size
    assert steps == [("fsync", size), ("replace", size)]


async def test_clean_workers_are_kept_and_others_replaced(wasm: object) -> None:
    async with workers() as own:
        (first,) = pids_of(own)
        assert (await own.run(one_program("1/0"), Tools())).ending is Ending.RAISED
        assert pids_of(own) == {first}
        assert (await own.run(one_program("while True: pass", wall_seconds=0.2), Tools())).ending is Ending.LIMITED
        (second,) = pids_of(own)
        assert second != first
        assert is_gone(first)
        assert (await own.run(one_program("6 * 7"), Tools())).value == 42
        assert pids_of(own) == {second}
    assert is_gone(second)


async def test_a_worker_killed_under_its_program_is_told(wasm: object) -> None:
    class Kills(Tools):
        async def call(self, *_: Any, **__: Any) -> Reply:
            os.kill(pid, signal.SIGKILL)
            return Reply(None)

    async with workers() as own:
        (pid,) = pids_of(own)
        outcome = await own.run(one_program("from servers.github import echo\necho()\nwhile True: pass"), Kills())
        assert outcome.ending is Ending.DIED
        assert outcome.error is not None
        assert "exit status -9" in outcome.error.message
        (pid,) = pids_of(own)
        assert (await own.run(one_program("6 * 7"), Tools())).value == 42
        os.kill(pid, signal.SIGKILL)
        assert (await own.run(one_program("6 * 7"), Tools())).value == 42, "nothing is told of one killed while idle"


HELD_BACK = f"""{RAW["wasm"]}
frame = sys._getframe()
while "done" not in frame.f_locals:
    frame = frame.f_back
raw.send(json.dumps(frame.f_locals["done"]))
raw.send('{{"op":"line","line":1,"op":"call","id":1,"server":"github","tool":"boom","arguments":{{}}}}')
raw.send = lambda text: None
"""
"""Ends with a frame that looks like one of a line, which the worker holds back, and is a call."""


async def test_no_frame_that_is_held_back_is_read_as_one_of_the_next_program(wasm: object) -> None:
    tools = Tools()
    async with workers() as own:
        for _ in range(3):
            assert (await own.run(one_program(HELD_BACK), tools)).ending is Ending.RETURNED
            assert (await own.run(one_program("import time\ntime.sleep(0.1)\n6 * 7"), tools)).value == 42
    assert tools.calls == []


FRAMES = {
    "sent by the guest itself": "from servers.github import echo\nlen(echo(x='a' * 12_000_000)['x'])",
    "of plain text": RAW["wasm"] + "raw.send('a' * 105_000_000)",
    "of half the memory": RAW["wasm"] + "raw.send('a' * 120_000_000)",
    "with a wide character": RAW["wasm"] + "text = 'a' * 50_000_000\nraw.send(text + chr(0x1F600))",
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory a process had, and bounds it")
@pytest.mark.parametrize("way", FRAMES)
async def test_the_copies_of_a_frame_are_bounded_with_the_memory_of_its_program(wasm: object, way: str) -> None:
    """A worker needs 60 MiB, and 8 times the longest frame beside `memory_mb`; it took 662 for 105 MB."""
    peaks, is_over = [0], threading.Event()

    def watch(pid: int) -> None:
        with suppress(OSError):
            while not is_over.wait(0.002):
                status = Path(f"/proc/{pid}/status").read_text()
                peaks.extend(int(kib) // 1024 for kib in re.findall(r"VmHWM:\s+(\d+)", status))

    async with workers() as own:
        (pid,) = pids_of(own)
        watching = threading.Thread(target=watch, args=(pid,))
        watching.start()
        outcome = await own.run(one_program(FRAMES[way], call_bytes=13 * 2**20), Tools())
        is_over.set()
        watching.join()
        assert (await own.run(one_program("6 * 7"), Tools())).value == 42
    # A program that leaves its own interpreter no memory may end that instead.
    assert outcome.ending in ({Ending.RETURNED} if "itself" in way else {Ending.LIMITED, Ending.DIED})
    assert max(peaks) < 60 + 256 + 8 * 13


HOST = """
import asyncio, sys
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Limits, Program
from tests.sandbox.lab import pids_of, workers
async def main():
    async with workers() as own:
        print(*pids_of(own), flush=True)
        await own.run(Program(ExecutionId("x0"), sys.argv[1], Limits()), None)
asyncio.run(main())
"""


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(60)"])
async def test_a_worker_does_not_outlive_a_killed_host(wasm: object, code: str) -> None:
    root = Path(__file__).parents[2]
    host = await anyio.open_process([sys.executable, "-c", HOST, code], stderr=None, cwd=root)
    assert host.stdout is not None
    pid = int(await host.stdout.receive())
    assert not is_gone(pid)
    await anyio.sleep(0.3)  # until the program computes; were it not yet, the test would only be easier
    host.kill()
    await host.aclose()
    await all_gone(pid)


RESULTS = {
    "large texts": ("echo", "[echo(a='y' * 8_000_000) for _ in range(60)]"),
    "at once": ("rows", "await asyncio.gather(*[rows(count=20_000) for _ in range(30)])"),
}


@pytest.mark.parametrize("what", RESULTS)
@pytest.mark.asyncio(loop_scope="session")
async def test_memory_that_results_of_tools_take_is_limited_in_the_same_words(
    wasm: SandboxBackend, tmp_path: Path, what: str
) -> None:
    """An allocation fails here where the interpreter can't raise MemoryError."""
    tool, expression = RESULTS[what]
    code = f"import asyncio\nfrom servers.github import {tool}\nlen({expression})"
    assert await Lab(wasm, tmp_path).limit(code, memory_mb=128, wall_seconds=100) == "limits.memory_mb"


async def test_a_program_has_its_own_limits_and_folders_whatever_its_instance_was_made_for(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    workspace.mkdir()
    other.mkdir()
    fill = "full = bytearray(100 * 2**20)\nlen(full)"
    async with workers() as backend:
        lab = Lab(backend, workspace)
        assert await lab.value(fill) == 100 * 2**20
        assert await lab.limit(fill, memory_mb=64) == "limits.memory_mb"
        worker = pids_of(backend)
        assert await lab.value("open('/workspace/a', 'w').write('a')") == 1
        assert await Lab(backend, other).value("import os\nos.listdir('/workspace')") == []
        assert await Lab(backend, None).value("import os\nos.path.exists('/workspace')") is False
        assert await lab.value("import os\nos.listdir('/workspace')") == ["a"]
        workspace.rename(tmp_path / "gone")
        workspace.mkdir()
        assert await lab.value("import os\nos.listdir('/workspace')") == []
        assert pids_of(backend) == worker, "to start another one would take far longer"


async def test_workers_are_kept_for_some_seconds_after_two_programs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from servers.github import meet\nmeet(n=1, company=2)"
    async with workers() as backend, anyio.create_task_group() as tending:
        tending.start_soon(backend.tend)
        kept: list[frozenset[int]] = []
        for _ in range(2):
            tools = Tools()
            async with anyio.create_task_group() as tasks:
                for _ in range(2):  # each ends once both have called
                    tasks.start_soon(Lab(backend, tmp_path).value, code, tools)
            kept.append(pids_of(backend))
        assert len(kept[0]) == 2
        assert kept[1] == kept[0], "used again"
        monkeypatch.setattr(backend_module, "RECENT_SECONDS", 0.0)
        backend._has_surplus.set()
        await until(lambda: len(pids_of(backend)) <= 1)
        tending.cancel_scope.cancel()
