"""`connect` and `disconnect`: each host's file gets our entry in its own form, and its old bytes back.

In process, with a home in a temporary folder. The files are as the hosts write them.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from codemode_server.cli import run
from codemode_server.config import file_edits
from codemode_server.config.hosts import HOSTS, System
from tests.tables import tables

TABLES = tables(__file__)

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and links")
SECRET = "ghp_0123456789abcdef"
GITHUB = {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": SECRET}}


@dataclass(frozen=True)
class Home:
    """A person's home folder, and what the commands print."""

    path: Path
    capture: pytest.CaptureFixture[str]

    def file(self, host: str, content: str | bytes | None = None) -> Path:
        """The host's file, with this content."""
        path = HOSTS[host].place(System("linux", self.path, {})).path
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def configuration(self, **servers: Any) -> Path:
        path = self.path / ".config/codemode-server/upstream.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"servers": servers}))
        path.chmod(0o600)
        return path

    def run(self, *words: str, code: int = 0) -> str:
        found = run(words)
        shown = self.capture.readouterr()
        text = shown.out + shown.err
        assert found == code, text
        return text

    def files(self) -> set[str]:
        found = (path for path in self.path.rglob("*") if path.is_file())
        return {str(path.relative_to(self.path)) for path in found}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    folder = tmp_path / "home"
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "codemode-server"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("XDG_", "CODE", "COPILOT", "CLAUDE", "APPDATA"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "argv", [str(command)])
    monkeypatch.setattr(sys, "platform", "linux" if sys.platform == "darwin" else sys.platform)
    monkeypatch.chdir(folder)
    return Home(folder, capsys)


def parsed(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return YAML(typ="safe").load(text) if path.suffix == ".yaml" else json.loads(text)


def command(home: Home) -> str:
    return str(home.path / "bin" / "codemode-server")


ENTRIES: dict[str, Any] = TABLES["entries"]
"""A file with our entry alone; C stands for the command."""


def with_command(value: Any, found: str) -> Any:
    return json.loads(json.dumps(value).replace('"C"', json.dumps(found)))


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_without_a_file_gets_one_in_its_own_form_and_loses_it_again(home: Home, host: str) -> None:
    before = home.files()
    home.run("connect", host, "--yes")
    assert parsed(home.file(host)) == with_command(ENTRIES[host], command(home))
    home.run("disconnect", host, "--yes")
    assert home.files() == before


def test_a_dry_run_shows_the_change_and_writes_nothing(home: Home) -> None:
    file = home.file("cursor", '{"mcpServers": {}}\n')
    before = home.files()
    shown = home.run("connect", "cursor", "--dry-run")
    assert '"codemode"' in shown
    assert "nothing has been written" in shown
    assert (file.read_text(), home.files()) == ('{"mcpServers": {}}\n', before)


def test_nothing_is_written_where_nobody_can_be_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home.file("cursor", "{}\n")
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert "rerun with --yes" in home.run("connect", "cursor", code=2)
    assert file.read_text() == "{}\n"


def test_servers_with_the_same_content_are_taken_out_and_others_stay(home: Home) -> None:
    other = {**GITHUB, "env": {"GITHUB_TOKEN": "another-account-1"}}
    home.configuration(gh=GITHUB)
    old = json.dumps({"mcpServers": {"github": GITHUB, "work": other, "git": {"command": "uvx"}}}, indent=2)
    file = home.file("claude-code", old)
    shown = home.run("connect", "claude-code", "--yes")
    assert list(parsed(file)["mcpServers"]) == ["work", "git", "codemode"]
    assert "removes 'github' (there 'gh'), which your configuration has too" in shown
    assert "leaves 'work', 'git', which your configuration does not have" in shown
    assert "another-account-1" not in shown
    home.run("disconnect", "claude-code", "--yes")
    assert file.read_text() == old


WRITTEN = Path(__file__).parents[1] / "config" / "written_by_hosts"
"""What the hosts' own commands wrote (2026-11), of this person's files and of a project's."""


@pytest.mark.parametrize("name", sorted(path.name for path in WRITTEN.iterdir()))
def test_a_file_that_its_host_wrote_gets_its_bytes_back(home: Home, name: str) -> None:
    host, *rest = name.split(".")[:-1]
    written = (WRITTEN / name).read_bytes()
    place = HOSTS[host].project_places(home.path)[-1].path if rest else home.file(host)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(written)
    scope = ["--project"] if rest else []
    before = home.files()
    home.run("connect", host, "--yes", *scope)
    assert parsed(place) != parsed(WRITTEN / name)
    assert "already; nothing has changed" in home.run("connect", host, "--dry-run", *scope)
    home.run("disconnect", host, "--yes", *scope)
    assert (place.read_bytes(), home.files()) == (written, before)


@pytest.mark.parametrize("name", ["claude-code.json", "codex.toml"])
def test_what_was_imported_from_a_file_that_its_host_wrote_is_taken_out(
    home: Home, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "example-token")  # which the file of Codex names
    host = name.partition(".")[0]
    file = home.file(host, (WRITTEN / name).read_bytes())
    home.run("init")
    home.run("import", "--from", host, "--all", "--no-test")
    shown = home.run("connect", host, "--yes")
    servers = file_edits.find(parsed(file), HOSTS[host].servers)
    assert list(servers) == ["codemode"]
    assert "removes 'github'" in shown
    # The host writes its file anew: what was taken out is put back all the same.
    file.write_bytes(file.read_bytes() + b"\n")
    home.run("disconnect", host, "--yes")
    assert parsed(file) == parsed(WRITTEN / name)


def test_a_change_by_others_between_two_of_ours_is_not_lost_by_the_backup(home: Home) -> None:
    home.configuration(gh=GITHUB)
    file = home.file("cursor", json.dumps({"mcpServers": {"github": GITHUB}}))
    home.run("connect", "cursor", "--yes", "--keep-servers")
    file.write_text(json.dumps({**parsed(file), "theirs": 1}))
    home.run("connect", "cursor", "--yes")
    assert list(parsed(file)["mcpServers"]) == ["codemode"]
    home.run("disconnect", "cursor", "--yes")
    assert parsed(file) == {"mcpServers": {"github": GITHUB}, "theirs": 1}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (GITHUB, {**GITHUB, "enabled": False}),
        (GITHUB, {**GITHUB, "args": ["-y", "server-github", "--read-only"]}),
        (GITHUB, {"command": "npx", "args": ["-y", "server-github"]}),
        ({**GITHUB, "disabledTools": ["delete_repository"]}, GITHUB),
    ],
    ids=["it is off here", "another argument", "without the token", "a restriction that ours lacks"],
)
def test_a_server_that_would_be_lost_is_not_taken_out(home: Home, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """And what could not be called before can't be called after."""
    home.configuration(gh=ours)
    file = home.file("kiro", json.dumps({"mcpServers": {"github": theirs}}))
    home.run("connect", "kiro", "--yes")
    assert "github" in parsed(file)["mcpServers"]
    home.configuration(gh={**GITHUB, "tools": {"exclude": theirs.get("disabledTools", [])}})
    home.run("connect", "kiro", "--yes")
    assert list(parsed(file)["mcpServers"]) == ["codemode"], "control"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"command": "npx", "args": ["server-github"]}, {"command": "/usr/bin/npx", "args": ["-y", "server-github"]}),
        ({"command": "uvx", "args": ["it"]}, {"command": "uvx", "args": ["--with", "mcp<2", "it"], "cwd": "/srv"}),
        ({"command": "it", "args": ["./data/a.db"]}, {"command": "it", "args": ["/srv/data/a.db"], "cwd": "/srv"}),
        ({"command": "it", "args": ["./data/a.db"]}, {"command": "it", "args": ["./data/a.db"], "cwd": "/srv"}),
        (GITHUB, {**GITHUB, "env": {"GITHUB_TOKEN": "a-newer-one-12345", "SSL_CERT_FILE": "/ca.pem"}}),
        ({"url": "https://a.example/mcp/"}, {"url": "https://a.example/mcp", "timeout": 5}),
    ],
    ids=["options", "versions of libraries", "a path made absolute", "a folder", "a newer token", "an address"],
)
def test_a_server_that_was_changed_since_it_was_imported_is_taken_out(
    home: Home, theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    home.configuration(it=ours)
    file = home.file("kiro", json.dumps({"mcpServers": {"it": theirs}}))
    home.run("connect", "kiro", "--yes")
    assert list(parsed(file)["mcpServers"]) == ["codemode"]


def test_a_server_for_one_folder_is_taken_out_of_the_file_of_claude_code(home: Home) -> None:
    projects = {"/srv": {"mcpServers": {"it": {"command": "it"}}, "history": []}, "/old": {"mcpServers": {}}}
    home.configuration(it={"command": "it", "cwd": "/srv"})
    old = json.dumps({"projects": projects}, indent=2)
    file = home.file("claude-code", old)
    assert "removes 'it of /srv' (there 'it')" in home.run("connect", "claude-code", "--yes")
    assert parsed(file)["projects"] == {**projects, "/srv": {"mcpServers": {}, "history": []}}
    file.write_bytes(file.read_bytes() + b"\n")
    home.run("disconnect", "claude-code", "--yes")
    assert parsed(file)["projects"] == projects


@pytest.mark.parametrize(
    ("answers", "left"), [("\n\n", ["codemode"]), ("n\n\n", ["github", "codemode"]), ("\nn\n", ["github"])]
)
def test_the_person_is_asked_whether_the_servers_leave_the_host_and_whether_its_file_changes(
    home: Home, monkeypatch: pytest.MonkeyPatch, answers: str, left: list[str]
) -> None:
    home.configuration(github=GITHUB)
    file = home.file("cursor", json.dumps({"mcpServers": {"github": GITHUB}}))
    terminal = StringIO(answers)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    shown = home.run("connect", "cursor", code=0 if "codemode" in left else 1)
    assert "1 server is in your configuration now: github\nRemove it from Cursor? [Y/n] " in shown
    assert list(parsed(file)["mcpServers"]) == left


def test_the_change_is_shown_without_tokens_and_with_everything_else(home: Home) -> None:
    schema = "https://example.com/settings.schema.json"
    home.configuration(github=GITHUB)
    home.file("gemini", json.dumps({"$schema": schema, "mcpServers": {"github": GITHUB}}, indent=2))
    shown = home.run("connect", "gemini", "--yes")
    assert SECRET not in shown
    assert '"GITHUB_TOKEN": "***"' in shown
    assert f'"$schema": "{schema}"' in shown
    home.file("gemini").write_bytes(home.file("gemini").read_bytes() + b"\n")
    assert SECRET not in home.run("disconnect", "gemini", "--yes")


def test_several_hosts_are_connected_and_one_that_can_not_be_is_named(home: Home) -> None:
    home.file("codex", "broken = [\n")
    shown = home.run("connect", "codex", "cursor", "kiro", "--yes", code=2)
    assert "this is not valid TOML" in shown
    assert all("codemode" in parsed(home.file(host))["mcpServers"] for host in ("cursor", "kiro"))
    home.run("disconnect", "cursor", "kiro", "--yes")
    assert not home.file("cursor").exists()


def test_without_a_usable_configuration_no_server_is_removed(home: Home) -> None:
    home.configuration(github=GITHUB).write_text("limits: {calls: many}\n")
    file = home.file("cursor", json.dumps({"mcpServers": {"github": GITHUB}}))
    assert "no server is removed, since your configuration can't be used" in home.run("connect", "cursor", "--yes")
    assert list(parsed(file)["mcpServers"]) == ["github", "codemode"]


def test_edits_made_since_are_kept_and_what_was_taken_out_is_put_back(home: Home) -> None:
    home.configuration(gh=GITHUB)
    file = home.file("claude-code", json.dumps({"mcpServers": {"github": GITHUB}, "numStartups": 1}, indent=2))
    home.run("connect", "claude-code", "--yes")
    data = parsed(file)
    file.write_text(json.dumps({**data, "numStartups": 2, "new": True}, indent=2))
    shown = home.run("disconnect", "claude-code", "--yes")
    assert "the file has changed since `connect`" in shown
    assert "puts back 'github'" in shown
    assert parsed(file) == {"mcpServers": {"github": GITHUB}, "numStartups": 2, "new": True}


def test_a_foreign_server_of_our_name_is_left_alone(home: Home) -> None:
    file = home.file("cursor", '{"mcpServers": {"codemode": {"command": "other"}}}')
    home.run("connect", "cursor", "--yes")
    assert parsed(file)["mcpServers"]["codemode"] == {"command": "other"}
    assert parsed(file)["mcpServers"]["codemode-server"]["command"] == command(home)


def test_the_file_of_the_project_is_changed_if_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home.path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    home.run("connect", "claude-code", "--project", "--yes")
    assert "codemode" in parsed(project / ".mcp.json")["mcpServers"]
    assert not home.file("claude-code").exists()
    home.run("disconnect", "claude-code", "--project", "--yes")
    assert not (project / ".mcp.json").exists()
    assert "no configuration files in projects" in home.run("connect", "windsurf", "--project", code=2)


def test_a_file_that_cannot_be_parsed_is_not_touched(home: Home) -> None:
    file = home.file("cursor", '{\n  "mcpServers": {]\n}')
    assert "line 2: this is not valid JSON" in home.run("connect", "cursor", "--yes", code=2)
    assert file.read_text() == '{\n  "mcpServers": {]\n}'


@posix
def test_mode_and_link_of_the_file_stay_and_the_backup_is_as_private(home: Home) -> None:
    target = home.path / "dotfiles.json"
    target.write_text("{}\n")
    target.chmod(0o640)
    file = home.file("cursor")
    file.parent.mkdir()
    file.symlink_to(target)
    shown = home.run("connect", "cursor", "--yes")
    assert f"a link leads to {target}" in shown
    assert file.is_symlink()
    backup = target.with_name("dotfiles.json.before-codemode")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, backup)] == [0o640, 0o640]
    assert backup.read_text() == "{}\n"
    home.run("disconnect", "cursor", "--yes")
    assert (target.read_text(), backup.exists()) == ("{}\n", False)
