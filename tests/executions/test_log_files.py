"""Log files in a workspace whose programs are hostile: nothing outside is touched, old logs go, the newest stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.executions.workspace import Workspace
from codemode_server.features.session_logs.session_log import LogFiles

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no program has files there")
NAME = "session-0123456789abcdef.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "state", Principal(PrincipalId("default")))
    made.make()
    return made


def test_a_log_replaces_the_one_before_as_a_whole(workspace: Workspace) -> None:
    files, folder = LogFiles(workspace, 1, 30), workspace.path / "sessions"
    files.write(NAME, b"first", is_first=True)
    with (folder / NAME).open("rb") as reading:
        files.write(NAME, b"second", is_first=False)
        assert reading.read() == b"first"
    assert [(it.name, it.read_bytes()) for it in folder.iterdir()] == [(NAME, b"second")]


@pytest.mark.parametrize("replaced", ["sessions", f"sessions/{NAME}"])
def test_a_link_in_the_place_of_the_folder_or_the_file_leads_nowhere(
    workspace: Workspace, tmp_path: Path, replaced: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("untouched")
    place = workspace.path / replaced
    if place.is_dir():
        place.rmdir()
    place.symlink_to(outside if replaced == "sessions" else outside / "file")
    if replaced == "sessions":
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            LogFiles(workspace, 1, 30).write(NAME, b"log", is_first=True)
    else:
        LogFiles(workspace, 1, 30).write(NAME, b"log", is_first=True)
        assert place.read_bytes() == b"log"
    assert [(it.name, it.read_text()) for it in outside.iterdir()] == [("file", "untouched")]


@pytest.mark.parametrize("kind", ["link", "pipe", "file"])
def test_what_a_program_put_in_the_place_of_a_folder_is_left_alone(
    workspace: Workspace, tmp_path: Path, kind: str
) -> None:
    state = workspace.path / "state"
    state.rmdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "checkpoint.json").write_text('{"step": "of somebody else"}')
    if kind == "link":
        state.symlink_to(tmp_path / "outside")
    elif kind == "pipe":
        os.mkfifo(state)
    else:
        state.write_text("x")
    workspace.make()
    files = LogFiles(workspace, 1, 30)
    assert (files.checkpoint(), files.state_files()) == (None, [])
    assert (state.is_symlink(), state.is_fifo(), not state.is_symlink() and state.is_file()) == (
        kind == "link",
        kind == "pipe",
        kind == "file",
    )
    assert [it.name for it in (tmp_path / "outside").iterdir()] == ["checkpoint.json"]


def test_old_logs_are_removed_with_the_next_session_and_files_of_programs_stay(workspace: Workspace) -> None:
    folder = workspace.path / "sessions"
    for name in (NAME, "requests-2026-01-02-0123abcd.json", "requests-2026-01-02.json", "mine.json", "session-.json"):
        (folder / name).write_text("{}")
    LogFiles(workspace, 1, 30).write("session-aa.json", b"{}", is_first=True)
    assert len(list(folder.iterdir())) == 6, "the control: they are not old yet"
    LogFiles(workspace, 1, 0).write("session-bb.json", b"{}", is_first=True)
    assert {it.name for it in folder.iterdir()} == {"mine.json", "session-.json", "session-bb.json"}


def test_all_logs_together_are_bounded(workspace: Workspace) -> None:
    files, folder = LogFiles(workspace, 100, 30), workspace.path / "sessions"
    for number in range(12):
        files.write(f"session-{number:02x}.json", bytes(2**20), is_first=True)
        os.sync()
    assert sum(it.stat().st_size for it in folder.iterdir()) <= 8 * 2**20
    assert (folder / "session-0b.json").exists()
