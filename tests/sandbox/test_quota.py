"""The quota of the workspace on each backend: what programs add beyond it is removed when they end, so it can't grow
from program to program; deleting always works."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from codemode_server.sandbox import quota
from codemode_server.sandbox.contract import Ending, SandboxBackend
from codemode_server.support.untrusted_files import used_bytes
from tests.sandbox.lab import SLOWNESS, Lab, Tools

pytestmark = pytest.mark.asyncio(loop_scope="session")

MB = 2**20
SETTING = "limits.workspace_mb"
FILL = """
import os
for number in range(1_000):
    with open(f"/workspace/{os.urandom(4).hex()}", "wb") as file:
        file.write(bytes(2**19))
"""
FILL_AND = {
    "is ended": FILL,
    "returns at once": FILL.replace("1_000", "24"),
    "raises": FILL.replace("1_000", "24") + "raise ValueError",
    "runs out of time": FILL.replace("1_000", "24") + "while True: pass",
    "kills itself": FILL.replace("1_000", "24") + "os._exit(3)",
}


def sizes(workspace: Path) -> dict[str, int]:
    return {file.name: file.lstat().st_size for file in workspace.iterdir()}


def held(workspace: Path) -> int:
    return used_bytes(workspace)


async def test_programs_that_fill_the_workspace_again_and_again_leave_no_more_than_the_quota(
    lab: Lab, workspace: Path
) -> None:
    (workspace / "old").write_bytes(b"old")
    for code in FILL_AND.values():
        outcome = await lab.run(code, workspace_mb=4, wall_seconds=2.0 * SLOWNESS)
        assert outcome.ending is not Ending.RETURNED
        assert held(workspace) <= 4 * MB
    assert (workspace / "old").read_bytes() == b"old"
    assert held(workspace) > MB, "control: what was within the quota is still there"


async def test_programs_that_make_empty_folders_again_and_again_leave_no_more_than_the_quota(
    lab: Lab, workspace: Path
) -> None:
    """What is there when a program begins may stay: each could add to what the one before has left."""
    for number in range(3):
        code = f"import os\nfor n in range(1_500):\n    os.mkdir(f'/workspace/{number}-{{n}}')"
        assert await lab.limit(code, workspace_mb=4) == SETTING
        assert used_bytes(workspace) <= 4 * MB


async def test_a_cancelled_program_leaves_no_more_than_the_quota(
    lab: Lab, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "_INTERVAL_SECONDS", 60.0)  # so that it is not ended before it is cancelled
    (workspace / "old").write_bytes(b"old")
    code = FILL.replace("1_000", "24") + "while True: pass"
    with anyio.fail_after(60 + 10 * SLOWNESS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(lab.run, code, workspace_mb=4))
            while held(workspace) < 8 * MB:
                await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()
    assert held(workspace) <= 4 * MB
    assert held(workspace) > MB, "control: what was within the quota is still there"
    assert (workspace / "old").read_bytes() == b"old"


async def test_a_file_without_a_folder_is_in_the_workspace_and_the_next_program_starts_there_again(
    lab: Lab, workspace: Path
) -> None:
    """As models write it: in a microVM such a file was lost, in WASM there was an error."""
    await lab.value("import os\nopen('x.csv', 'w').write('a,b')\nos.mkdir('out')\nos.chdir('out')")
    assert await lab.value("import os\n[open('x.csv').read(), os.getcwd()]") == ["a,b", "/workspace"]
    assert (workspace / "x.csv").read_text() == "a,b"
    code = "import os\nos.makedirs('./workspace', exist_ok=True)\nopen('./workspace/y.csv', 'w').write('c')"
    seen = "[os.path.exists('workspace/y.csv'), 'y.csv' in os.listdir('workspace')]"
    assert await lab.value(f"{code}\n{seen}") == [True, True]
    assert (workspace / "y.csv").read_text() == "c", "models write from a folder above, too"


async def test_the_model_is_told_what_was_removed_and_that_deleting_works(lab: Lab, workspace: Path) -> None:
    (workspace / "log").write_bytes(bytes(MB))
    code = "open('/workspace/small', 'w').write('x')\nopen('/workspace/big', 'wb').write(bytes(5 * 2**20))"
    error = await lab.failure(code, workspace_mb=4)
    assert error.setting == SETTING
    assert error.message == (
        "the program's files take more than 4 MiB; of what was added to /workspace, 1 file removed or cut back, "
        "5 MiB in all: 'big'"
    )
    assert sorted(sizes(workspace)) == ["log", "small"]


async def test_a_file_that_is_appended_to_beyond_the_quota_is_cut_back(lab: Lab, workspace: Path) -> None:
    (workspace / "log").write_bytes(b"old log")
    code = "with open('/workspace/log', 'ab') as log:\n    for _ in range(80): log.write(bytes(2**16))"
    assert await lab.limit(code, workspace_mb=4) == SETTING
    assert (workspace / "log").read_bytes() == b"old log"


@pytest.mark.parametrize(
    "write", ["open('/workspace/new', 'w').write('x')", "open('/workspace/one', 'ab').write(b'x' * 10_000)"]
)
async def test_a_workspace_that_holds_too_much_can_not_be_added_to(lab: Lab, workspace: Path, write: str) -> None:
    for name in ("one", "two"):
        (workspace / name).write_bytes(bytes(2 * MB))
    error = await lab.failure(write, workspace_mb=2)
    assert error.message.startswith(
        "/workspace held 4 MiB already, more than 2 MiB: files can be deleted, but nothing added; of what was added"
    )
    assert sizes(workspace) == {"one": 2 * MB, "two": 2 * MB}


async def test_of_two_programs_at_once_both_are_told_and_what_was_there_stays(lab: Lab, workspace: Path) -> None:
    (workspace / "old").write_bytes(bytes(MB))
    meet, endings = "from servers.github import meet\nmeet(n={0}, company=2)\n", []
    tools = Tools()

    async def run(code: str) -> None:
        outcome = await lab.run(code, tools, workspace_mb=4, wall_seconds=10.0 * SLOWNESS)
        endings.append((outcome.ending, outcome.error.setting if outcome.error else None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, meet.format(0) + "open('/workspace/mine', 'w').write('x')\nwhile True: pass")
        tasks.start_soon(run, meet.format(1) + FILL)
    assert endings == [(Ending.LIMITED, SETTING)] * 2
    assert held(workspace) <= 4 * MB
    assert (workspace / "old").stat().st_size == MB


async def test_a_finished_programs_files_stay_when_a_longer_one_writes_too_much(lab: Lab, workspace: Path) -> None:
    tools, done = Tools(), anyio.Event()

    async def fill() -> None:
        assert await lab.limit("from servers.github import meet\nmeet(n=0, company=2)\n" + FILL, tools,
                               workspace_mb=4) == SETTING  # fmt: skip
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill)
        while not tools.here:
            await anyio.sleep(0.01)
        await lab.value("open('/workspace/report', 'wb').write(bytes(2**20))\n1", workspace_mb=4)
        await lab.run("from servers.github import meet\nmeet(n=1, company=2)", tools, workspace_mb=4)
    assert done.is_set()
    assert (workspace / "report").stat().st_size == MB


async def test_nothing_outside_is_touched_when_links_stand_where_files_were(
    backend: SandboxBackend, lab: Lab, beside: Path, workspace: Path
) -> None:
    (beside / "precious").write_bytes(bytes(MB))
    (workspace / "log").write_bytes(b"old")
    code = "import os\nos.remove('/workspace/log')\nos.symlink('../precious', '/workspace/log')\n"
    code += "os.symlink('..', '/workspace/out')\n"
    assert await lab.limit(code + FILL, workspace_mb=4) == SETTING
    assert (beside / "precious").stat().st_size == MB
    assert held(workspace) <= 4 * MB
