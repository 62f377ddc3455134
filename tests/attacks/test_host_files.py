"""Threat: a host's file, or a repository's, makes `connect` write elsewhere, or paint over its question.

Rule: only the person's own regular file is replaced, at its place or where a link within the same home or project
leads, and only if it is still as it was shown.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from codemode_server.config import connecting
from codemode_server.config.connecting import ProductCommand
from codemode_server.config.file_edits import NotEditable
from codemode_server.config.host_file import ConnectRecord
from codemode_server.config.hosts import HOSTS, HostPlace, System

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links, modes and owners")
LAUNCH = ProductCommand("/opt/bin/codemode-server")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    return folder


def place(home: Path, host: str = "cursor", project: Path | None = None) -> HostPlace:
    found = HOSTS[host].place(System("linux", home, {}), project)
    found.path.parent.mkdir(parents=True, exist_ok=True)
    return found


def connect(home: Path, host: str = "cursor", project: Path | None = None) -> connecting.HostFileChange:
    plan = connecting.plan_connect(place(home, host, project), project or home, LAUNCH)
    connecting.apply(plan)
    return plan


def test_a_link_out_of_the_home_or_the_repository_is_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "etc.json"
    outside.write_text("{}")
    place(home).path.symlink_to(outside)
    with pytest.raises(NotEditable, match=r"leads to .*etc\.json, which is outside of"):
        connect(home)
    assert outside.read_text() == "{}"
    project, mine = home / "project", home / ".claude.json"
    project.mkdir()
    mine.write_text("{}")
    (project / ".mcp.json").symlink_to(mine)
    with pytest.raises(NotEditable, match="outside of"):
        connect(home, "claude-code", project)
    assert mine.read_text() == "{}"


def test_a_link_within_the_home_is_followed_and_stays(home: Path) -> None:
    """The control."""
    target = home / "dotfiles.json"
    target.write_text("{}")
    place(home).path.symlink_to(target)
    assert connect(home).file.is_link
    assert place(home).path.is_symlink()
    assert "codemode" in target.read_text()


def test_a_link_to_nothing_and_a_pipe_and_a_folder_are_refused(home: Path) -> None:
    path = place(home).path
    path.symlink_to(home / "gone.json")
    with pytest.raises(NotEditable, match="does not exist"):
        connect(home)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NotEditable, match="not a regular file"):
        connect(home)
    path.unlink()
    path.mkdir()
    with pytest.raises(NotEditable):
        connect(home)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_refused(home: Path) -> None:
    path = place(home).path
    path.write_text("{}")
    os.chown(path, 12345, -1)
    with pytest.raises(NotEditable, match="belongs to another user"):
        connect(home)
    os.chown(path, os.geteuid(), -1)
    connect(home)
    assert "codemode" in path.read_text()


def test_a_file_that_changes_between_preview_and_write_is_left_alone(home: Path) -> None:
    path = place(home).path
    path.write_text("{}")
    plan = connecting.plan_connect(place(home), home, LAUNCH)
    path.write_text('{"mcpServers": {"new": {"command": "x"}}}')
    with pytest.raises(NotEditable, match="has changed meanwhile"):
        connecting.apply(plan)
    assert path.read_text() == '{"mcpServers": {"new": {"command": "x"}}}'
    assert [it.name for it in path.parent.iterdir()] == ["mcp.json"], "neither backup nor temporary file is left"
    assert ConnectRecord.find(path) is None
    connect(home)
    assert set(json.loads(path.read_text())["mcpServers"]) == {"new", "codemode"}


def test_a_backup_is_not_written_through_a_link_that_waits_there(home: Path, tmp_path: Path) -> None:
    path, outside = place(home).path, tmp_path / "stolen.json"
    path.write_text("{}")
    path.with_name("mcp.json.before-codemode").symlink_to(outside)
    connect(home)
    assert not outside.exists()
    assert path.with_name("mcp.json.before-codemode-1").read_text() == "{}"


@pytest.mark.parametrize(
    ("host", "content"),
    [
        ("cursor", '{"a":' * 100_000),
        ("codex", "a = " + "[" * 100_000 + "]" * 100_000),
        ("goose", "[" * 100_000),
        ("goose", "a: &a [x]\n" + "".join(f"{it}: &a [*a, *a]\n" for it in "bcdefghijklmnopqrstuvwxyz")),
    ],
    ids=["objects", "TOML lists", "YAML lists", "YAML aliases"],
)
def test_a_file_that_is_too_deep_or_too_large_is_refused_and_ends_nothing(home: Path, host: str, content: str) -> None:
    path = place(home, host).path
    path.write_text(content)
    try:
        connect(home, host)
    except NotEditable:
        assert path.read_text() == content
    with path.open("wb") as file:
        file.truncate(70 * 2**20)
    with pytest.raises(NotEditable, match="larger than"):
        connect(home, host)
