"""Moving in: `init`, `import`, `add`, `remove`, `list`, `enable`, `disable` and `test`, as a person types them."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from codemode_server import cli
from codemode_server.config import load
from codemode_server.config.places import host_folder
from codemode_server.support.network_variables import NETWORK_VARIABLES
from tests.behaviour.product import PLAIN

NOTES = """
server = Server("notes")

@server.tool()
def look() -> str:
    return "seen"

server.run()
"""
TOKEN = "ghp_0123456789abcdef0123456789abcdef0123"


@dataclass
class Machine:
    """A home folder, a project folder and the command line in it."""

    home: Path
    project: Path
    capsys: pytest.CaptureFixture[str]
    output: str = ""
    errors: str = ""

    def run(self, *arguments: str) -> int:
        try:
            code = cli.run(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        self.output, self.errors = self.capsys.readouterr()
        assert TOKEN not in self.output + self.errors
        return code

    def write(self, name: str, content: Any) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    @property
    def file(self) -> Path:
        return self.home / ".config/codemode-server/upstream.yaml"

    @property
    def dotenv(self) -> str:
        return self.file.with_name(".env").read_text()

    def servers(self) -> dict[str, Any]:
        return dict(load().settings.servers)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    for variable in (*os.environ,):
        names = ("XDG_", "CODEMODE", "CLAUDE", "CODEX", "COPILOT", "GITHUB")
        if variable.startswith(names) or variable in NETWORK_VARIABLES:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    return Machine(home, project, capsys)


def answer(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """A terminal at which the person types this line."""
    terminal = io.TextIOWrapper(io.BytesIO(line.encode()))
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)


def cursor(**servers: Any) -> dict[str, Any]:
    return {"mcpServers": servers}


class TestInit:
    def test_writes_a_first_file_and_names_the_hosts_that_are_there(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", "{}")
        (machine.home / ".codex").mkdir()

        assert machine.run("init") == 0

        assert "# " in machine.file.read_text()
        assert machine.file.stat().st_mode & 0o777 == 0o600
        assert machine.output.endswith("  codemode-server connect cursor codex\n")
        assert "goose" not in machine.output

    def test_where_no_host_is_found_connect_is_named(self, machine: Machine) -> None:
        assert machine.run("init") == 0
        assert "codemode-server connect HOST" in machine.output


class TestImport:
    def test_takes_servers_over_with_their_secrets_apart(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(github={"command": "npx", "env": {"GITHUB_TOKEN": TOKEN}}))

        assert machine.run("import", "--all", "--no-test") == 0

        assert machine.servers()["github"].env == {"GITHUB_TOKEN": TOKEN}
        assert TOKEN not in machine.file.read_text()
        assert f"GITHUB_TOKEN='{TOKEN}'" in machine.dotenv
        assert machine.file.with_name(".env").stat().st_mode & 0o777 == 0o600

    def test_a_second_import_adds_nothing(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(github={"command": "npx", "env": {"GITHUB_TOKEN": TOKEN}}))
        machine.run("import", "--all", "--no-test")
        before = machine.file.read_bytes(), machine.dotenv

        machine.run("import", "--all", "--no-test")

        assert (machine.file.read_bytes(), machine.dotenv) == before
        assert "github of Cursor, ~/.cursor/mcp.json: in your configuration already" in machine.output

    def test_secrets_can_be_stored_apart_from_all_files(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(github={"command": "npx", "env": {"GITHUB_TOKEN": TOKEN}}))

        assert machine.run("import", "--all", "--no-test", "--secrets", "keyring") == 0

        assert "${keyring:GITHUB_TOKEN}" in machine.file.read_text()
        assert not machine.file.with_name(".env").exists()
        assert machine.servers()["github"].env == {"GITHUB_TOKEN": TOKEN}
        machine.run("import", "--all", "--no-test")
        assert list(machine.servers()) == ["github"]

    def test_without_a_terminal_the_servers_have_to_be_named(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(github={"command": "npx"}, other={"command": "npx"}))

        assert machine.run("import") == 2
        assert "name the servers, or give --yes or --from HOST" in machine.errors
        assert machine.run("import", "github", "--no-test") == 0
        assert list(machine.servers()) == ["github"]

    @pytest.mark.parametrize("place", [".cursor/mcp.json", "their.json"])
    @pytest.mark.parametrize(
        ("line", "taken"),
        [("1 3\n", ["a", "c"]), ("2\n", ["b"]), ("all\n", ["a", "b", "c"]), ("\n", []), ("N\n", []), ("none\n", [])],
    )
    def test_a_person_is_asked_before_anything_runs_about_a_named_file_too(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch, place: str, line: str, taken: list[str]
    ) -> None:
        file = str(machine.write(place, cursor(a={"command": "evil"}, b={"command": "b"}, c={"command": "c"})))
        words = ["import", "--no-test", *([file] if place == "their.json" else [])]
        answer(monkeypatch, line)

        assert machine.run(*words) == 0

        assert list(machine.servers()) == taken
        assert "evil" in machine.output.partition("Which of them?")[0]
        if not taken:
            assert machine.run(*words, "--all") == 0, "control: asked for on the command line"
            assert list(machine.servers()) == ["a", "b", "c"]

    def test_what_a_repository_names_is_taken_only_if_asked_for(self, machine: Machine) -> None:
        (machine.project / ".mcp.json").write_text(json.dumps(cursor(theirs={"command": "evil"})))
        machine.write(".cursor/mcp.json", cursor(mine={"command": "a"}))

        machine.run("import", "--all", "--no-test")
        assert list(machine.servers()) == ["mine"]
        machine.run("import", "theirs", "--no-test")
        assert machine.servers()["theirs"].cwd == str(machine.project)

    def test_a_repository_switches_nothing_on(self, machine: Machine) -> None:
        (machine.project / ".mcp.json").write_text(json.dumps(cursor(a={"command": "x", "cwd": "/srv"})))
        machine.write(".cursor/mcp.json", cursor(a={"command": "x", "cwd": "/srv", "disabled": True}))

        machine.run("import", "--all", "--project", "--no-test")

        assert [it.enabled for it in machine.servers().values()] == [False]

    def test_one_broken_file_harms_no_other(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", "{broken\x1b[31m")
        machine.write(".codex/config.toml", '[mcp_servers.b]\ncommand = "b"\n')
        machine.write(".gemini/settings.json", "[" * 100_000)
        machine.write(".qwen/settings.json", '{"mcpServers": {"c": {"command": 7, "args": "no"}}}')

        assert machine.run("import", "--all", "--no-test") == 0

        assert list(machine.servers()) == ["b"]
        assert "\x1b" not in machine.output
        assert "Cursor" in machine.output

    def test_names_and_commands_cannot_control_the_terminal(self, machine: Machine) -> None:
        machine.write(
            ".cursor/mcp.json", cursor(**{"a\x1b[2J": {"command": "x\x1b[2J\nfake: line", "args": ["\u202e"]}})
        )

        machine.run("import", "--dry-run")

        assert "\x1b" not in machine.output
        assert "\u202e" not in machine.output
        assert "\nfake" not in machine.output

    def test_the_same_server_of_two_hosts_is_taken_once_with_the_restrictions_of_both(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(a={"command": "one"}))
        machine.write(".kiro/settings/mcp.json", cursor(a={"command": "one", "disabledTools": ["delete"]}))

        machine.run("import", "--all", "--no-test")

        assert machine.servers()["a"].tools.exclude == ("delete",)
        assert "a of Kiro, ~/.kiro/settings/mcp.json: the same as above" in machine.output
        assert machine.output.endswith("connect cursor kiro\n")

    def test_the_folder_of_relative_paths_is_asked_for_and_known_for_a_projects_file(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = {"command": "x", "args": ["--db=data/a.db"]}
        machine.write(".cursor/mcp.json", cursor(a=server, b={"command": "x", "args": ["./b"]}, c={"command": "x/y"}))
        (machine.home / "notes").mkdir()
        answer(monkeypatch, "all\n~/note\n~/notes\n\n")

        machine.run("import", "--no-test")

        assert "a has a relative path, 'data/a.db'. In which folder does it begin? " in machine.output
        assert "there is no folder ~/note\n" in machine.output
        machine.run("import", str(machine.write("work/.mcp.json", cursor(d=server))), "--yes", "--no-test")
        written = YAML(typ="safe").load(machine.file)["servers"]
        folders = [str(machine.home / "notes"), None, None, str(machine.home / "work")]
        assert [written[name].get("cwd") for name in "abcd"] == folders
        machine.run("import", "--all", "--no-test")
        assert "a, b, c of Cursor, ~/.cursor/mcp.json: in your configuration already" in machine.output

    def test_no_server_is_started_in_the_configuration_folder_unless_it_uses_a_file_there(
        self, machine: Machine
    ) -> None:
        folder = machine.write(".config/codemode-server/mine.py", "").parent
        servers = {"a": {"command": "x"}, "b": {"command": "x", "args": ["mine.py"]}, "c": {"command": "x", "cwd": "."}}
        shown = {"d": {"command": "x", "args": ["~"]}, "e": {"command": "x", "args": [str(machine.home / "docs")]}}
        shown["f"] = {"command": "x", "args": ["."]}
        machine.file.write_text(json.dumps({"servers": {**servers, **shown}}))

        found = machine.servers()
        assert [found[name].cwd for name in "abcf"] == [str(machine.home), str(folder), str(folder), None]
        started = {host: host_folder(folder, host) for host in ("", "/", str(folder), "/project")}
        assert started == dict.fromkeys(started, str(machine.home)) | {"/project": "/project"}
        machine.run("config", "check")
        assert f"servers.c: it gets {folder}, and so {folder} with your secrets" in machine.output
        assert f"servers.d: it gets {machine.home}, and so {folder} with your secrets" in machine.output
        assert machine.output.count("with your secrets") == 2, "the others are fine"

    def test_proxies_and_certificates_are_given_to_all_servers(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
        machine.write(".cursor/mcp.json", cursor(a={"command": "x", "env": {"SSL_CERT_FILE": "/ca.pem"}}))
        answer(monkeypatch, "all\n\n")

        machine.run("import", "--no-test")

        assert (
            "Servers don't get SSL_CERT_FILE, which you have here. Give them to all servers? [Y/n] " in machine.output
        )
        assert "added a and for all servers SSL_CERT_FILE to " in machine.output
        assert load().settings.env == {"SSL_CERT_FILE": "/ca.pem"}
        assert machine.file.read_text().count("SSL_CERT_FILE") == 1
        machine.run("import", "--all", "--no-test")
        assert "in your configuration already" in machine.output

    def test_without_a_terminal_they_have_to_be_asked_for(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{TOKEN}@proxy:3128")
        machine.write(".cursor/mcp.json", cursor(a={"command": "x"}))

        machine.run("import", "--all", "--no-test")
        assert "servers don't get HTTPS_PROXY; `codemode-server import --env` gives them to all" in machine.output
        assert load().settings.env == {}
        assert machine.run("import", "--env") == 0

        assert load().settings.env == {"HTTPS_PROXY": f"http://me:{TOKEN}@proxy:3128"}
        assert "HTTPS_PROXY: http://me:${PROXY_PASSWORD}@proxy:3128" in machine.file.read_text()
        assert "for all servers HTTPS_PROXY" in machine.output

    def test_what_hosts_give_to_several_servers_is_offered_for_all_but_not_what_a_project_gives(
        self, machine: Machine
    ) -> None:
        def given(value: str) -> dict[str, Any]:
            return {"env": {"NODE_EXTRA_CA_CERTS": value, "HTTP_PROXY": value}}

        machine.write(".cursor/mcp.json", cursor(a={"command": "x", "env": {"NODE_EXTRA_CA_CERTS": "/ca.pem"}}))
        machine.write(".codex/config.toml", '[mcp_servers.b]\ncommand = "b"\nenv = {NODE_EXTRA_CA_CERTS = "/ca.pem"}\n')
        theirs = cursor(c={"command": "c", **given("evil")}, d={"command": "d", **given("evil")})
        (machine.project / ".mcp.json").write_text(json.dumps(theirs))

        machine.run("import", "--all", "--env", "--no-test")

        assert load().settings.env == {"NODE_EXTRA_CA_CERTS": "/ca.pem"}

    @pytest.mark.parametrize(
        "text",
        [
            '{"time": {"command": "uvx", "args": ["mcp-server-time"]}}',
            '"time": {"command": "uvx", "args": ["mcp-server-time"]},\n',
            "extensions:\n  time: {type: stdio, cmd: uvx, args: [mcp-server-time]}\n",
        ],
    )
    def test_from_what_a_page_shows(self, machine: Machine, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

        assert machine.run("import", "-", "--no-test") == 2, "nobody has seen it"
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert machine.run("import", "-", "--no-test", "--yes") == 0

        assert machine.servers()["time"].args == ("mcp-server-time",)


class TestConfigCheck:
    @pytest.mark.parametrize(
        ("section", "told"),
        [
            ({"guardrails": [{"use": "nothere:X"}]}, "guardrails[0].use: 'nothere:X' can't be imported"),
            ({"state": {"database": "postgresql://me@127.0.0.1:1/x"}}, "can't be used: "),
            (
                {"privacy": {"servers": {"a": "tokens"}, "name_models": ["xx_none"]}},
                "the model xx_none, which privacy.name_models asks for, is not installed; ",
            ),
        ],
    )
    def test_what_keeps_the_server_from_starting_is_named(
        self, machine: Machine, section: dict[str, Any], told: str
    ) -> None:
        machine.write(".config/codemode-server/upstream.yaml", {"servers": {"a": {"command": "sh"}}, **section})

        assert machine.run("config", "check") == 1
        assert told in machine.errors
        machine.file.write_text("servers: {a: {command: sh}}\n")
        machine.run("config", "check")
        assert told not in machine.errors, "control"

    def test_nothing_of_an_untrusted_file_is_tried(self, machine: Machine) -> None:
        (machine.project / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()")
        (machine.project / "upstream.yaml").write_text("guardrails: [{use: 'evil:X'}]\n")

        machine.run("config", "check")
        assert "not given" in machine.output
        assert not (machine.project / "ran").exists()


class TestWhatARepositoryNames:
    """A file in the current folder chooses names, but never what the person's words mean."""

    @pytest.fixture(autouse=True)
    def _mine(self, machine: Machine) -> None:
        machine.write(".cursor/mcp.json", cursor(github={"command": "mine"}))

    @staticmethod
    def offer(machine: Machine, **servers: Any) -> None:
        (machine.project / ".mcp.json").write_text(json.dumps(cursor(**servers)))

    @pytest.mark.parametrize("name", ["1", "1-1", "all"])
    def test_a_number_is_a_row_and_never_a_name(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        self.offer(machine, **{name: {"command": "evil"}})
        answer(monkeypatch, "1\n")

        machine.run("import", "--no-test")

        assert {key: it.command for key, it in machine.servers().items()} == {"github": "mine"}

    @pytest.mark.parametrize("word", ["2", "1-2", "all"])
    def test_a_word_on_the_command_line_is_only_a_name(self, machine: Machine, word: str) -> None:
        self.offer(machine, **{word: {"command": "evil"}})

        assert machine.run("import", word, "--no-test") == 2
        assert f"there is no server {word!r} to take" in machine.errors
        assert machine.run("import", "github", "--no-test") == 0, "control"
        assert list(machine.servers()) == ["github"]

    def test_a_bare_word_is_no_file(self, machine: Machine) -> None:
        (machine.project / "github").write_text(json.dumps(cursor(github={"command": "evil"})))

        machine.run("import", "github", "--no-test")
        assert {key: it.command for key, it in machine.servers().items()} == {"github": "mine"}
        machine.run("import", "./github", "--no-test", "--yes")
        assert sorted(it.command for it in machine.servers().values()) == ["evil", "mine"], "control"

    def test_what_will_run_is_shown_whole(self, machine: Machine) -> None:
        args = ["-c", "exec npx time" + " " * 200 + ";" + " " * 3 + "touch pwned", *(f"/folder/{n}" for n in range(40))]
        env = {"LEVEL": "debug", "GITHUB_TOKEN": TOKEN, "MY_TOKEN": "${UNSET_ONE}-and-more"}
        self.offer(machine, shell={"command": "sh", "args": args, "cwd": "/srv/theirs", "env": env})

        machine.run("import", "--dry-run")

        shown = " ".join(line.removeprefix("      | ") for line in machine.output.splitlines())
        assert "from this folder" in shown
        assert "sh -c 'exec npx time [200 spaces] ; [3 spaces] touch pwned' /folder/0" in shown
        assert "/folder/39 cwd: /srv/theirs" in shown
        assert "env LEVEL=debug" in shown
        assert "env GITHUB_TOKEN=${GITHUB_TOKEN}" in shown
        assert "env MY_TOKEN=***" in shown
        assert max(map(len, machine.output.splitlines())) < 120

    @pytest.mark.parametrize(
        "name", ["PATH", "Path", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH"]
    )
    def test_what_decides_which_code_is_loaded_is_shown_for_every_server(self, machine: Machine, name: str) -> None:
        machine.write(".cursor/mcp.json", cursor(a={"command": "x", "env": {name: "/theirs", "LEVEL": "debug"}}))

        machine.run("import", "--dry-run")

        assert f"| env {name}=/theirs\n" in machine.output
        assert "debug" not in machine.output, "control"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    @pytest.mark.parametrize(
        "argument",
        ["a" * 2_000_000, "a." * 1_000_000, "eyJaaaaaaaaaaaa." * 100_000],
        ids=["a word", "a scheme", "tokens"],
    )
    @pytest.mark.slow
    def test_the_preview_of_a_long_argument_takes_linear_time(self, machine: Machine, argument: str) -> None:
        """Each took minutes."""
        machine.write("their.json", cursor(x={"command": "c", "args": [argument]}))
        assert machine.run("import", "--dry-run", str(machine.home / "their.json")) == 0
        assert "1  x" in machine.output

    def test_a_pipe_is_not_waited_for(self, machine: Machine) -> None:
        for name in ("pipe.json", ".mcp.json"):
            os.mkfifo(machine.project / name)

        assert machine.run("import", "./pipe.json", "--no-test") == 2
        assert "pipe.json: can't be read: it is not a regular file; `-` reads stdin" in machine.errors
        assert machine.run("import", "github", "--no-test") == 0, "control"


class TestATrustedFolder:
    @pytest.fixture(autouse=True)
    def _file(self, machine: Machine) -> None:
        (machine.project / "upstream.yaml").write_text("servers:\n  a: {command: x}\n")

    def test_its_file_stays_trusted_when_the_person_edits_it(self, machine: Machine) -> None:
        machine.run("trust", "--yes")

        assert machine.run("add", "b", "--no-test", "-e", f"B_TOKEN={TOKEN}", "--", "y") == 0

        assert list(machine.servers()) == ["a", "b"]
        assert (machine.project / ".env").exists()

    def test_until_it_is_trusted_each_command_names_the_file_that_it_means(self, machine: Machine) -> None:
        here = machine.project / "upstream.yaml"
        machine.run("permissions", "explain", "a/b")
        assert f"{here} is not trusted: used only where --config names it" in machine.errors
        machine.run("add", "mine", "--no-test", "--", "x")
        machine.run("list")
        assert "mine" in machine.output
        assert f"{here} is not used" in machine.errors
        machine.run("add", "a", "--no-test", "--", "x")
        assert f"{here} is not trusted, so {machine.file} is edited" in machine.errors
        machine.run("disable", "a")
        assert machine.output.startswith(f"disabled in {machine.file}: a")
        machine.run("trust", "--yes")
        machine.run("list")
        assert machine.errors == "", "control"


class TestAdd:
    def test_a_program_gets_its_secrets_as_references(self, machine: Machine) -> None:
        line = f"add airtable --no-test -e AIRTABLE_API_KEY={TOKEN} -e LEVEL=2 -- npx -y airtable"
        assert machine.run(*line.split()) == 0

        server = machine.servers()["airtable"]
        assert (server.command, server.args) == ("npx", ("-y", "airtable"))
        assert server.env == {"AIRTABLE_API_KEY": TOKEN, "LEVEL": "2"}
        assert TOKEN not in machine.file.read_text()

    def test_an_address_with_a_header(self, machine: Machine) -> None:
        header = f"Authorization: Bearer {TOKEN}"
        line = ["add", "web", "--transport", "http", "https://a.example/mcp", "--no-test", "--header", header]
        assert machine.run(*line) == 0

        assert machine.servers()["web"].headers == {"Authorization": f"Bearer {TOKEN}"}
        assert "Bearer ${WEB_TOKEN}" in machine.file.read_text()

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("a b", "--", "x"), "can't be a name"),
            (("a", "-e", "X", "--", "x"), "is not of the form -e KEY=VALUE"),
            (("a", "https://a.example", "-e", "A=1"), "env is for servers with a command only"),
            (("a", "mcp.example.com/x"), "an address begins with a scheme: https://mcp.example.com/x"),
            (("a", "npx -y b"), "write the command without quotes, behind `--`: -- npx -y b"),
            (("a", "--no-test", "https://a.example", "--what"), "unrecognized arguments: https://a.example --what"),
            (("a", "--what"), "`codemode-server add --help` lists what there is"),
            (("a", "htp://b"), "an address begins with http:// or https://"),
            (("a", "b", "--", "x"), "only the name may stand before `--`; 'b' does too"),
            (("a", "./x", "--db", "d.db"), "write the command behind `--`: add a -- ./x --db d.db"),
        ],
    )
    def test_a_mistake_is_told(self, machine: Machine, arguments: tuple[str, ...], told: str) -> None:
        assert machine.run("add", "--no-test", *arguments) == 2
        assert told in machine.errors
        assert not machine.file.exists()

    def test_relative_paths_are_those_of_the_current_folder(self, machine: Machine) -> None:
        (machine.project / "server.py").touch()
        (machine.project / "data").mkdir()
        words = ["./run", "server.py", "build", "-m", "data/new.db", "none/new.db"]
        assert machine.run("add", "a", "--no-test", "--cwd", "sub", "--", *words) == 0
        assert machine.run("add", "b", "--no-test", "--", *words) == 0
        a, b = machine.servers().values()
        program, script, new = (str(machine.project / it) for it in ("run", "server.py", "data/new.db"))
        assert f"made absolute, from this folder: {program}, {script}, {new}\n" in machine.output
        assert (a.command, a.args, a.cwd) == (program, tuple(words[1:]), str(machine.project / "sub"))
        assert (b.command, b.args) == (program, (script, "build", "-m", new, "none/new.db"))


class TestTheRest:
    @pytest.fixture(autouse=True)
    def _servers(self, machine: Machine) -> None:
        script = machine.write("notes.py", PLAIN + NOTES)
        machine.write(
            ".config/codemode-server/upstream.yaml",
            f"# mine\nservers:\n  notes:\n    command: {sys.executable}\n    args: [{script}]\n"
            f"  dead:\n    command: {sys.executable}\n"
            "    args: [-c, \"import sys; print('no licence', file=sys.stderr); sys.exit(3)\"]\n    enabled: false\n",
        )

    def test_list_names_them_without_connecting(self, machine: Machine) -> None:
        assert machine.run("list") == 0
        assert [line.split() for line in machine.output.splitlines()[1:]] == [
            ["notes", "stdio", "enabled"],
            ["dead", "stdio", "disabled"],
        ]

    def test_remove_keeps_the_comments_and_a_copy(self, machine: Machine) -> None:
        machine.run("add", "a", "--no-test", "-e", f"A_TOKEN={TOKEN}", "--", "x")
        before = machine.file.read_text()

        assert machine.run("remove", "notes", "a") == 0

        assert f"{machine.file.with_name('.env')} still has A_TOKEN" in machine.output
        assert list(machine.servers()) == ["dead"]
        assert machine.file.read_text().startswith("# mine\n")
        (copy,) = machine.file.parent.glob("upstream.yaml.*.bak")
        assert copy.read_text() == before

    def test_a_read_only_file_is_not_replaced(self, machine: Machine) -> None:
        before = machine.file.read_text()
        machine.file.chmod(0o444)
        for command in ("remove notes", "disable notes", "add a --no-test -- x"):
            assert machine.run(*command.split()) == 2
            assert "is read-only; make it writable first" in machine.errors
        assert machine.file.read_text() == before
        machine.file.chmod(0o644)
        assert machine.run("disable", "notes") == 0

    def test_disable_and_enable(self, machine: Machine) -> None:
        before = machine.file.read_text()
        assert machine.run("disable", "notes") == 0
        assert machine.servers()["notes"].enabled is False
        assert machine.run("enable", "notes", "dead") == 0
        assert all(it.enabled for it in machine.servers().values())
        assert before.splitlines()[0] in machine.file.read_text()

    def test_test_shows_the_tools(self, machine: Machine) -> None:
        assert machine.run("test", "notes") == 0
        assert "1 tool:\n  look" in machine.output

    def test_what_does_not_start_stays_in_the_file_and_is_told(self, machine: Machine) -> None:
        assert machine.run("add", "bad", "--", sys.executable, "-c", "exit(3)") == 1
        assert machine.output.endswith("it stays in the file; codemode-server remove bad takes it out\n")
        assert "bad" in machine.servers()

    def test_test_shows_the_whole_error(self, machine: Machine) -> None:
        assert machine.run("test", "dead") == 1
        assert "is disabled; it is started for this test only" in machine.output
        assert "no licence" in machine.output
        assert machine.servers()["dead"].enabled is False
