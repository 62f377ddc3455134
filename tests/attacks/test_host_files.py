"""Threat: a host's file, or a repository's, makes `connect` write elsewhere, show secrets, or paint over its question.

Rule: only the person's own regular file is replaced, at its place or where a link within the same home or project
leads, and only if it is still as it was shown. Of other servers' values none is shown.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.cli import run
from codemode_server.config.host_files import connecting, entries, forms
from codemode_server.config.host_files.difference import difference
from codemode_server.config.host_files.forms import ProductCommand
from codemode_server.config.host_files.readable import readable
from codemode_server.config.host_files.spans import HostFileNotEditable
from codemode_server.config.host_places import HOSTS, HostPlace, System
from tests.config.test_import_table import FILES
from tests.config.test_import_table import SECRETS as SECRETS_OF_HOSTS
from tests.work import lines_run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links, modes and owners")
FILES_OF_HOSTS = [it for it in FILES if it.name.startswith(tuple(HOSTS))]
LAUNCH = ProductCommand("/opt/bin/codemode-server")
SECRET = "s3cretValueOfAnotherServer"
PAINT = "red\x1b[31m\x1b]0;title\x07\x9b2J\u202egit\u2066\r"


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


def test_a_link_out_of_the_home_is_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "etc.json"
    outside.write_text("{}")
    place(home).path.symlink_to(outside)
    with pytest.raises(HostFileNotEditable, match=r"leads to .*etc\.json, which is outside of"):
        connect(home)
    assert outside.read_text() == "{}"


def test_a_linked_folder_out_of_the_home_is_not_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (home / ".cursor").symlink_to(tmp_path / "etc")
    with pytest.raises(HostFileNotEditable, match="outside of"):
        connect(home)
    assert list((tmp_path / "etc").iterdir()) == []


def test_a_link_of_a_repository_to_a_file_of_the_person_is_not_followed(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    mine = home / ".claude.json"
    mine.write_text("{}")
    (project / ".mcp.json").symlink_to(mine)
    with pytest.raises(HostFileNotEditable, match="outside of"):
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
    with pytest.raises(HostFileNotEditable, match="does not exist"):
        connect(home)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(HostFileNotEditable, match="not a regular file"):
        connect(home)
    path.unlink()
    path.mkdir()
    with pytest.raises(HostFileNotEditable):
        connect(home)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_refused(home: Path) -> None:
    path = place(home).path
    path.write_text("{}")
    os.chown(path, 12345, -1)
    with pytest.raises(HostFileNotEditable, match="belongs to another user"):
        connect(home)
    os.chown(path, os.geteuid(), -1)
    connect(home)
    assert "codemode" in path.read_text()


def test_a_file_that_changes_between_preview_and_write_is_left_alone(home: Path) -> None:
    path = place(home).path
    path.write_text("{}")
    plan = connecting.plan_connect(place(home), home, LAUNCH)
    path.write_text('{"mcpServers": {"new": {"command": "x"}}}')
    with pytest.raises(HostFileNotEditable, match="has changed meanwhile"):
        connecting.apply(plan)
    assert path.read_text() == '{"mcpServers": {"new": {"command": "x"}}}'
    assert [it.name for it in path.parent.iterdir()] == ["mcp.json"], "neither backup nor temporary file is left"
    assert connecting.plan_connect(place(home), home, LAUNCH).is_first, "nothing is recorded"
    connect(home)
    assert set(json.loads(path.read_text())["mcpServers"]) == {"new", "codemode"}


def test_a_file_that_becomes_a_link_between_preview_and_write_is_not_followed(home: Path, tmp_path: Path) -> None:
    path, outside = place(home).path, tmp_path / "etc.json"
    path.write_text("{}")
    outside.write_text("{}")
    plan = connecting.plan_connect(place(home), home, LAUNCH)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(HostFileNotEditable):
        connecting.apply(plan)
    assert outside.read_text() == "{}"


def test_a_backup_is_not_written_through_a_link_that_waits_there(home: Path, tmp_path: Path) -> None:
    path, outside = place(home).path, tmp_path / "stolen.json"
    path.write_text("{}")
    path.with_name("mcp.json.before-codemode").symlink_to(outside)
    connect(home)
    assert not outside.exists()
    assert path.with_name("mcp.json.before-codemode-1").read_text() == "{}"


@pytest.mark.parametrize("host", ["cursor", "codex", "goose"])
def test_a_file_of_50_mb_is_refused_before_it_is_parsed(home: Path, host: str) -> None:
    path = place(home, host).path
    with path.open("wb") as file:
        file.truncate(50 * 2**20)
    with pytest.raises(HostFileNotEditable, match="larger than"):
        connect(home, host)


def test_the_largest_file_takes_no_more_steps_than_a_small_one(home: Path) -> None:
    """Claude Code keeps histories in it; only the path to our entry is walked."""

    def steps(projects: int) -> int:
        data = {"projects": {str(it): {"history": ["x" * 400, {"a": 1}]} for it in range(projects)}, "mcpServers": {}}
        text = json.dumps(data, indent=2)
        return lines_run(lambda: entries.with_entry(text, "json", ("mcpServers", "codemode"), {"command": "x"}))

    assert steps(40) < steps(10) * 8


@pytest.mark.parametrize(
    ("host", "content"),
    [
        ("cursor", '{"a":' * 100_000),
        ("cursor", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
        ("codex", "a = " + "[" * 100_000 + "]" * 100_000),
        ("codex", ".".join("a" * 50_000) + " = 1"),
        ("goose", "[" * 100_000),
        ("goose", "a: &a [x]\n" + "".join(f"{it}: &a [*a, *a]\n" for it in "bcdefghijklmnopqrstuvwxyz")),
    ],
    ids=["objects", "lists", "TOML lists", "TOML keys", "YAML lists", "YAML aliases"],
)
def test_deep_nesting_is_refused_or_edited_and_ends_nothing(home: Path, host: str, content: str) -> None:
    path = place(home, host).path
    path.write_text(content)
    try:
        connect(home, host)
    except HostFileNotEditable:
        assert path.read_text() == content


CONTENTS = {
    "cursor": '{"mcpServers": {"x": {"command": "c", "args": ["--key", "SECRET"], "env": {"A": "SECRET"}}}}',
    "claude-code": '{\n  "mcpServers": {\n    "x": {"url": "https://SECRET/", "headers": {"B": "SECRET"}}\n  }\n}',
    "vscode": '{\n "servers": {\n  // SECRET\n  "x": {"env": {"A": "SECRET"}} /* SECRET\nSECRET */\n }\n}',
    "codex": "[mcp_servers.x]\nenv = {A = 'SECRET'}\nargs = [\n \"SECRET\",\n]\nb = '''\nSECRET\n''' # SECRET\n",
    "goose": "extensions:\n  x:\n    envs:\n      A: SECRET\n      B: |\n        SECRET\n    args: [SECRET]\n",
    "continue": "mcpServers:\n  - name: x\n    args:\n      - SECRET\n      - 'SECRET'\n",
}


@pytest.mark.parametrize("host", CONTENTS)
def test_no_value_of_another_server_is_in_the_diff(home: Path, host: str) -> None:
    file = place(home, host)
    file.path.write_text(CONTENTS[host].replace("SECRET", SECRET))
    plan = connecting.plan_connect(file, home, LAUNCH)
    shown = "\n".join(plan.difference())
    assert LAUNCH.command in shown, "ours are shown"
    assert "***" in shown
    assert SECRET not in shown
    connecting.apply(plan)
    assert SECRET not in "\n".join(connecting.plan_disconnect(file, home).difference())


@pytest.mark.parametrize(
    ("entry", "shown", "hidden"),
    [
        ({"args": ["-y", "@scope/server-github@2.1"]}, ["-y", "@scope/server-github@2.1"], []),
        ({"args": ["--token", "hush", "--port", "80"]}, ["--token", "--port"], ["hush"]),
        ({"args": ["postgres://me:hush-hush@h/db", "/srv/data"]}, ["/srv/data"], ["hush-hush"]),
        ({"url": "https://mcp.linear.app/mcp"}, ["https://mcp.linear.app/mcp"], []),
        ({"url": "https://h.example/?api_key=hush-hush"}, [], ["hush-hush"]),
        ({"env": {"MODE": "hush"}, "headers": {"X": "hush"}, "args": ["hush"]}, ["MODE"], ["hush"]),
        ({"args": ["sk-abcdefghijklmnopqrstuv", "s3cretvalueofanotherserver"]}, [], ["sk-abc", "s3cret"]),
    ],
    ids=["package", "flag", "address with a password", "address", "parameter", "environment", "keys"],
)
def test_what_another_server_starts_is_in_the_diff_without_its_secrets(
    home: Path, entry: dict[str, Any], shown: list[str], hidden: list[str]
) -> None:
    file = place(home)
    file.path.write_text(f'{{\n"mcpServers": {{\n"x": {json.dumps(entry)}\n}}\n}}\n')
    page = "\n".join(connecting.plan_connect(file, home, LAUNCH).difference())
    assert not [text for text in shown if text not in page]
    assert not [text for text in hidden if text in page]


@pytest.mark.parametrize(
    "entry",
    [
        {"args": ["-u", "root", "-p", "hush4-Zq"]},
        {"args": ["-phush4-Zq"]},
        {"args": ["--user", "me:hush4-Zq"]},
        {"args": ["--x-id", "hush4-Zq"]},
        {"args": ["Server=db;User Id=sa;Password=hush4-Zq"]},
        {"args": ["host=db password=hush4-Zq"]},
        {"args": ["--config", '{"apiKey":"hush4-Zq"}']},
        {"args": ['--config={"apiKey":"hush4-Zq"}']},
        {"command": "sh", "args": ["-c", "export API_TOKEN=hush4-Zq; npx x"]},
        {"command": "cmd", "args": ["/c", "set TOKEN=hush4-Zq&& npx x"]},
        {"args": "--token hush4-Zq"},
        {"args": ["--header", "X-Team: hush4-Zq"]},
        {"command": "npx", "args": ["--token", "hush4-Zq"]},
        {"command": "npx", "args": ["-y", "server", "hush4-Zq"]},
        {"command": ["uvx", "server", "--token", "hush4-Zq"]},
        {"httpHeaders": {"X": "hush4-Zq"}},
        {"Env": {"X": "hush4-Zq"}},
        {"settings": {"x": "hush4-Zq"}},
        {"url": "https://h.example/mcp?id=hush4-Zq"},
        {"url": "https://h.example/hush4-Zq/mcp"},
        {"url": "https://me:hush4-Zq@h.example/mcp"},
        {"url": "https://h.example/mcp#hush4-Zq"},
    ],
    ids=json.dumps,
)
def test_what_may_be_a_secret_without_a_telling_name_is_masked(home: Path, entry: dict[str, Any]) -> None:
    file = place(home)
    file.path.write_text(f'{{\n"mcpServers": {{\n"x": {json.dumps(entry)}\n}}\n}}\n')
    page = "\n".join(connecting.plan_connect(file, home, LAUNCH).difference())
    assert '"x"' in page
    assert "hush4" not in page


@pytest.mark.parametrize("path", FILES_OF_HOSTS, ids=lambda path: path.name)
def test_no_secret_of_a_file_that_a_host_wrote_is_in_the_diff(path: Path) -> None:
    host = HOSTS[next(it for it in sorted(HOSTS, reverse=True) if path.name.startswith(it))]
    text = entries.decoded(path.read_bytes(), host.syntax)
    servers = entries.find(data := entries.read(text, host.syntax), forms.servers_path(host, data))
    page = "\n".join(difference(text, "", host.syntax, (), readable(servers)))
    assert len(page.splitlines()) >= len(text.splitlines()), "all of it"
    assert not [secret for secret in SECRETS_OF_HOSTS if secret in page]


def test_a_secret_outside_of_the_servers_is_masked_though_a_server_has_the_same_word(home: Path) -> None:
    file = place(home)
    settings = {"mcpServers": {"x": {"command": "npx", "args": ["postgres"]}}, "password": "postgres", "theme": "dark"}
    file.path.write_text(json.dumps(settings, indent=2))
    page = "\n".join(connecting.plan_connect(file, home, LAUNCH).difference())
    assert '"postgres"' in page, "as an argument"
    assert '"password": "***"' in page
    assert "dark" not in page


def test_a_long_line_is_compared_in_linear_time(home: Path) -> None:
    """A file on one line, as some hosts write it: a million characters took minutes."""
    file = place(home)
    file.path.write_text(json.dumps({"a": ["b"] * 50_000, "mcpServers": {}}))
    page = connecting.plan_connect(file, home, LAUNCH).difference()
    assert [len(line) <= 210 for line in page] == [True] * 3


def test_the_environment_that_a_person_gave_our_entry_is_not_shown(home: Path) -> None:
    file = place(home)
    mine = {"command": "/gone/codemode-server", "env": {"GITHUB_TOKEN": SECRET}}
    file.path.write_text(json.dumps({"mcpServers": {"codemode": mine}}, indent=2))
    plan = connecting.plan_connect(file, home, LAUNCH)
    assert SECRET not in "\n".join(plan.difference())
    connecting.apply(plan)
    assert json.loads(file.path.read_text())["mcpServers"]["codemode"]["env"] == {"GITHUB_TOKEN": SECRET}


def test_names_and_values_that_paint_reach_the_terminal_escaped(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place(home)
    file.path.write_text(json.dumps({"mcpServers": {PAINT: {"command": PAINT}}}, ensure_ascii=False, indent=2))
    config = home / ".config/codemode-server/upstream.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("servers: {}\n")
    assert run(["connect", "cursor", "--dry-run", "--take-out-imported"]) == 0
    shown = capsys.readouterr().out
    assert "red" in shown
    assert not [it for it in shown if not (it.isprintable() or it == "\n")]
    file.path.write_text("{\n" + PAINT)
    assert run(["connect", "cursor", "--yes"]) == 2
    assert not [it for it in capsys.readouterr().err if not (it.isprintable() or it == "\n")]


def test_an_entry_of_a_repository_that_only_names_us_is_not_taken_for_ours(home: Path) -> None:
    """Else `connect` would say that the host starts this product, while it starts something else."""
    file = place(home)
    file.path.write_text(
        json.dumps({"mcpServers": {"codemode": {"command": "evil", "args": ["x", "--for", "codemode"]}}})
    )
    plan = connecting.plan_connect(file, home, LAUNCH)
    connecting.apply(plan)
    assert json.loads(file.path.read_text())["mcpServers"]["codemode-server"]["command"] == LAUNCH.command
