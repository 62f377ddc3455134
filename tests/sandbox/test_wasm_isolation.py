"""What holds a hostile program on the wasm backend only: there is nothing but its own folders, and nothing to do it with.
Every attack has beside it what an honest program can do in the same place."""

# ruff: noqa: E501 - short programs read best on one line; the files are small

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from codemode_server.sandbox.contract import Ending, SandboxBackend
from tests.attacks.kit import workers
from tests.sandbox.lab import Lab
from tests.tables import rows, tables
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)
CANARY = "canary-7f3a9c21"


@pytest.fixture
def backend(wasm: SandboxBackend) -> SandboxBackend:
    return wasm


async def test_only_its_own_folders_are_there(lab: Lab) -> None:
    code = "import os\nr = {}\nfor p in ('/', '/tmp', '/workspace', '/home', '/etc', '/proc', '/dev'):\n    try: r[p] = sorted(os.listdir(p))\n    except OSError: pass\nr"
    found = await lab.value(code)
    assert set(found) <= {"/", "/tmp", "/workspace"}
    assert found["/tmp"] == found["/workspace"] == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at open files in /proc")
async def test_the_workers_open_files_are_its_code_and_the_programs_folders(
    lab: Lab, beside: Path, workspace: Path
) -> None:
    """An open file of the host's would be within reach of a program that has broken out of wasmtime."""
    with (beside / "open.txt").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert str(beside / "open.txt") in open_files(os.getpid()), "control: this process has it"
        for pid in workers():
            os.kill(pid, signal.SIGKILL)  # so that the next one is started from a process that has the file open
        program = "import os, time\nopen('/workspace/begun', 'w').close()\nwhile not os.path.exists('/workspace/end'): time.sleep(0.02)"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lab.value, program)
            await until(lambda: (workspace / "begun").exists())
            held = open_files_of_the_worker(workspace)

            # The program has `begun` or the folder of `end` open for a moment; what was left open stays in every look.
            def are_three() -> bool:
                held.intersection_update(open_files_of_the_worker(workspace))
                return len(held) <= 3

            try:
                await until(are_three)
            finally:
                (workspace / "end").touch()
    (code, scratch) = held - {str(workspace)}
    assert {Path(code).suffix, Path(scratch).suffix} == {".cwasm", ""}
    assert Path(scratch if code.endswith(".cwasm") else code).name.startswith("tmp-")


def open_files_of_the_worker(workspace: Path) -> set[str]:
    (found,) = [files for files in map(open_files, workers()) if str(workspace) in files]
    return found


def open_files(pid: int) -> set[str]:
    """The paths of the files and folders that a process has open; pipes and the like have none."""
    found = set()
    for descriptor in (Path("/proc") / str(pid) / "fd").iterdir():
        with suppress(FileNotFoundError):  # the one that reads this very folder
            found.add(str(descriptor.readlink()))
    return {path for path in found if path.startswith("/")}


@pytest.mark.parametrize("attack", rows(TABLES["attacks"]))
async def test_there_are_no_sockets_processes_or_threads(lab: Lab, attack: str) -> None:
    assert await lab.value("open('/tmp/x', 'w').write('ok')") == 2
    outcome = await lab.run(attack)
    assert outcome.ending is Ending.RAISED, outcome
    assert outcome.error is not None
    assert outcome.error.type in {
        "OSError",
        "URLError",
        "AttributeError",
        "ImportError",
        "ModuleNotFoundError",
        "RuntimeError",
        "gaierror",
        "PermissionError",
        "BlockingIOError",
        "FileNotFoundError",
        "IsADirectoryError",
        "NotImplementedError",
    }


@pytest.mark.parametrize("code", rows(TABLES["waits"]))
async def test_waiting_for_nothing_is_an_error_and_not_a_hang(lab: Lab, code: str) -> None:
    kind, message = await lab.error(code)
    assert (kind, message.startswith("deadlock")) == ("RuntimeError", True)
