"""The command as a person or a host starts it: a child process, its exit code, and what is on which stream.

0 is done, 1 done with a bad answer, 2 the configuration or the call is wrong; never a traceback, never a secret.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.behaviour.product import configuration, office
from tests.tables import rows, tables

TABLES = tables(__file__)

ROOT = Path(__file__).parents[2]
SECRET = "ghp_0123456789abcdef"
DEAD = "import sys; print('starting', file=sys.stderr); sys.exit('no licence found')"


@dataclass(frozen=True)
class Run:
    code: int
    stdout: str
    stderr: str


def command(folder: Path, line: str, *, environment: dict[str, str] | None = None, stdin: str | None = None) -> Run:
    """Run `codemode-server LINE` in `folder` as a user who has no configuration but what is there."""
    done = subprocess.run(
        fork_server.command("-m", "codemode_server", *shlex.split(line)),
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            **(environment or {}),
        },
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return Run(done.returncode, done.stdout, done.stderr)


def dead() -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", DEAD]}


INTERRUPTED = """
import runpy, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
sys.meta_path.insert(0, Interrupt())
sys.argv = ["codemode-server", "status"]
runpy.run_module("codemode_server", run_name="__main__")
"""


def test_ctrl_c_while_modules_are_imported_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    script = INTERRUPTED.format(name="codemode_server.cli")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("line", "told"), rows(TABLES["usage"]))
def test_what_is_no_command_or_option_is_answered_with_the_usage(tmp_path: Path, line: str, told: str) -> None:
    done = command(tmp_path, line)
    assert (done.code, done.stdout) == (2, "")
    usage, error = done.stderr.strip().split("\n")
    assert usage.startswith("usage: codemode-server")
    assert error.startswith(told)


def test_status_tells_of_every_upstream_and_why_one_is_not_there(tmp_path: Path) -> None:
    off = {"command": "nothing", "enabled": False}
    configuration(tmp_path, {**office(tmp_path, "github", "slack"), "dead": dead(), "off": off})
    done = command(tmp_path, "status --config upstream.yaml")
    assert done == Run(
        1,
        "server  state     protocol    tools  tokens\n"
        "dead    failed    -           0      0\n"
        f"github  ready     2026-07-28  3      {done.stdout.split()[14]}\n"
        "off     disabled  -           0      0\n"
        f"slack   ready     2026-07-28  1      {done.stdout.split()[24]}\n"
        "\n"
        "dead: exited with code 1; its stderr ends with:\n"
        "    starting\n"
        "    no licence found\n"
        "\n"
        "workspace: 0.0 of 256 MiB\n"
        "search: lexical, by words\n"
        f"{done.stdout.splitlines()[-2]}\n"
        "running server: none; a host starts it\n",
        "",
    )
    assert done.stdout.splitlines()[-2].startswith("sandbox: ")
    assert all(0 < int(done.stdout.split()[number]) < 1_000 for number in (14, 24))


@pytest.mark.parametrize("line", ["executions list", "status"])
def test_a_state_folder_that_is_a_file_is_not_taken_for_an_empty_one(tmp_path: Path, line: str) -> None:
    (tmp_path / "above").write_text("")
    configuration(tmp_path, {}, state={"dir": "above/state"})
    done = command(tmp_path, f"{line} --config upstream.yaml")
    assert (done.code, done.stdout) == (2, "")
    assert "Not a directory" in done.stderr
    assert "set state.dir in upstream.yaml to another folder" in done.stderr
    (tmp_path / "above").unlink()
    assert command(tmp_path, f"{line} --config upstream.yaml").code == 0, "control"


def test_what_an_upstream_says_at_its_end_forges_no_line_of_the_status(tmp_path: Path) -> None:
    code = r"import sys; sys.exit('gone\nmail    ready     2026-07-28  3\x1b[2J\u2028sandbox: microvm')"
    configuration(tmp_path, {"dead": {"command": sys.executable, "args": ["-c", code]}})
    lines = command(tmp_path, "status --config upstream.yaml").stdout.split("\n")
    assert lines[:4] == [
        "server  state   protocol  tools  tokens",
        "dead    failed  -         0      0",
        "",
        "dead: exited with code 1; its stderr ends with:",
    ]
    assert [line for line in lines[4:-6] if not line.startswith("    ")] == []
    assert [line for line in lines if not line.isprintable()] == []


def test_sync_writes_a_tree_that_can_be_imported(tmp_path: Path) -> None:
    configuration(tmp_path, office(tmp_path, "github", "slack"))
    done = command(tmp_path, "sync --config upstream.yaml")
    assert done == Run(0, f"{tmp_path}/servers: 7 files written, 0 unchanged, 0 removed\n", "")
    program = "from servers.github import list_issues; import servers.slack; print(list_issues.__doc__)"
    imported = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (imported.returncode, imported.stdout) == (0, "List the issues of a repository.\n"), imported.stderr


def test_a_port_that_is_taken_is_told_and_the_token_stays(tmp_path: Path) -> None:
    """Whoever serves on that port goes on with the token that hosts find in the file."""
    configuration(tmp_path, {})
    data = tmp_path / "data"
    token = data / "codemode-server" / "http-token"
    token.parent.mkdir(parents=True, mode=0o700)
    token.write_text("t" * 43)
    token.chmod(0o600)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = f"serve --config upstream.yaml --http 127.0.0.1:{port} --new-token"
        done = command(tmp_path, line, environment={"XDG_DATA_HOME": str(data)})
    assert token.read_text() == "t" * 43
    assert done == Run(
        2,
        "",
        f"codemode-server: --http: 127.0.0.1:{port} can't be opened: Address already in use; give another port\n",
    )


NOISY = """
import os, sys
print("noise before the protocol")
print("noise on stderr", file=sys.stderr)
sys.stdout.flush()
from mcp.server.mcpserver import MCPServer
server = MCPServer("noisy", log_level="DEBUG")
@server.tool()
def shout() -> str:
    os.write(1, b"NOISE in the middle\\n")
    os.write(2, b"NOISE in the middle\\n")
    return "quiet"
server.run("stdio")
"""


@pytest.mark.slow
def test_serve_writes_nothing_but_the_protocol_to_stdout(tmp_path: Path) -> None:
    """A configuration with warnings, an upstream noisy on both streams, a program that prints."""
    (tmp_path / "noisy.py").write_text(NOISY)
    servers = {
        "noisy": {"command": sys.executable, "args": ["noisy.py"]},
        "dead": dead(),
        "off": {"command": "x", "enabled": False, "env": {"A": "${NOT_SET}"}},
    }
    configuration(tmp_path, servers)
    program = "import sys\nfrom servers.noisy import shout\nprint('printed')\nprint('e', file=sys.stderr)\nshout()"
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": program}}},
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "codemode_server", "--config", str(tmp_path / "upstream.yaml")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with process:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        heard = []
        for line in process.stdout:
            heard.append(json.loads(line))
            if heard[-1].get("id") == 2:
                break
        process.stdin.close()
        heard += [json.loads(line) for line in process.stdout]
        said = process.stderr.read()
    assert all(message["jsonrpc"] == "2.0" for message in heard)
    (answer,) = [message["result"] for message in heard if message.get("id") == 2]
    content = answer["structuredContent"]
    assert (content["value"], content["stdout"], content["stderr"]) == ("quiet", "printed\n", "e\n")
    assert "Traceback" not in said
    assert "NOISE" not in said


@pytest.mark.parametrize(
    ("line", "is_right"),
    [
        ("audit --limit 2", True),
        ("audit --json", True),
        ("approvals --json", True),
        ("executions --limit 2 --json", True),
        ("sources --json", True),
        ("effects --json", True),
        ("privacy --kind email", True),
        ("executions lst", False),
        ("audit --limit 2 verify", False),
    ],
)
def test_the_options_of_the_default_action_need_not_its_name(tmp_path: Path, line: str, *, is_right: bool) -> None:
    path = configuration(tmp_path, {})
    done = command(tmp_path, f"{line} --config {path}")
    assert done.code == (0 if is_right else 2), done.stderr
