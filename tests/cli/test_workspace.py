"""`codemode-server workspace`: a person sees what programs have left, and removes it; nothing else is touched, and
nothing is removed that was not agreed to."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from codemode_server.cli.workspace import clean
from codemode_server.executions.workspace import FOLDERS
from codemode_server.records.workspace_files import examine
from tests.behaviour.product import configuration, in_memory
from tests.cli.test_commands import command

from .pseudo_terminal import at_terminal

MB = 2**20


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configuration(tmp_path, {}, limits={"workspace_mb": 4})


@pytest.fixture
def workspace(tmp_path: Path, config: Path) -> Path:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "workspaces").mkdir(mode=0o700)
    made = state / "workspaces" / "default"
    made.mkdir(mode=0o700)
    return made


def fill(workspace: Path) -> None:
    (workspace / "out").mkdir()
    (workspace / "out" / "big.bin").write_bytes(bytes(3 * MB))
    (workspace / "small").write_bytes(b"x")


def test_it_shows_how_much_there_is_and_the_largest_files(tmp_path: Path, config: Path, workspace: Path) -> None:
    fill(workspace)
    done = command(tmp_path, f"workspace --config {config}")
    lines = done.stdout.splitlines()
    day = time.strftime("%Y-%m-%d")
    assert done.code == 0
    assert lines[0] == f"{workspace}, which programs see as /workspace"
    assert lines[1] == "2 files and 1 folder, 3.0 MiB; programs may have 4 MiB (limits.workspace_mb)"
    assert [line.split() for line in lines[4:]] == [["3.0", "MiB", day, "out/big.bin"], ["0.0", "MiB", day, "small"]]


def test_cleaning_removes_what_it_shows(tmp_path: Path, config: Path, workspace: Path) -> None:
    fill(workspace)
    done = command(tmp_path, f"workspace clean --yes --config {config}")
    assert (done.code, done.stdout.splitlines()[-1]) == (0, "removed 2 files and 1 folder, 3.0 MiB")
    assert sorted(it.name for it in workspace.iterdir()) == sorted(FOLDERS)
    again = command(tmp_path, f"workspace clean --yes --config {config}")
    assert (again.code, again.stdout) == (0, "there is nothing to remove\n")


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are as on posix")
@pytest.mark.parametrize(("answer", "stays"), [("n", True), ("y", False)])
def test_a_person_is_asked(config: Path, workspace: Path, answer: str, *, stays: bool) -> None:
    fill(workspace)
    line = [sys.executable, "-m", "codemode_server", "workspace", "clean", "--config", str(config)]
    assert "Remove 2 files and 1 folder, 3.0 MiB, for good? " in at_terminal(line, ("[y/N] ", answer))
    assert (workspace / "small").exists() is stays


def test_links_are_removed_and_not_followed(tmp_path: Path, config: Path, workspace: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (workspace / "folder").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "precious")
    assert "2 files, 0.0 MiB" in command(tmp_path, f"workspace --config {config}").stdout
    assert command(tmp_path, f"workspace clean --yes --config {config}").code == 0
    assert sorted(it.name for it in workspace.iterdir()) == sorted(FOLDERS)
    assert (outside / "precious").read_text() == "precious"


def test_only_what_has_not_changed_for_so_long_is_removed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program can make a file look older or newer than it is."""
    fill(workspace)
    os.utime(workspace / "small", (0, 0))
    assert examine(workspace, 2).files == 0
    assert clean(workspace, 2) == ("removed 0 files, 0.0 MiB", True)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3 * 86_400)
    assert clean(workspace, 2) == ("removed 2 files and 1 folder, 3.0 MiB", True)


async def test_it_works_while_a_product_runs_and_the_next_program_begins_with_nothing(tmp_path: Path) -> None:
    config = configuration(tmp_path, {}, limits={"workspace_mb": 4})
    async with in_memory(config) as host:
        assert (await host.run("open('/workspace/a', 'wb').write(bytes(2**20))")).value == MB
        assert command(tmp_path, f"workspace clean --yes --config {config}").code == 0
        assert (await host.run("import os\nos.listdir('/workspace')")).value == sorted(FOLDERS)
