"""Threat: a secret of the configuration gets out: to the model, the program, a file, a log, a trace, another process.

Rule: it goes to the upstream that it is configured for, and nowhere else; what that upstream says of it, in whatever
place, is masked. What can't be caught is in the last tests: a secret that was cut in pieces or encoded.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codemode_server.config import load
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from tests import fork_server
from tests.attacks.kit import arrived, hostile, is_well
from tests.behaviour.product import configuration, in_memory, over_stdio
from tests.files import contents
from tests.processes import children
from tests.telemetry.collector import collecting

pytestmark = pytest.mark.slow

TOKEN = "tok-Z7kQ9xw41LmN0pR2"
FROM_FILE = "hunter2-from-dotenv-88"
IN_URL = "p4ssw0rd-in-the-url"
IN_HEADER = "hdr-5f2c9e7a1b"
IN_ARGS = "arg-5f0d3c2b1a99"
IN_KEYRING = "krg-4Tn8VbQ2wLx6"
PRINTED = "prt-9Kd3HsM7yRc1"
SECRETS = (TOKEN, FROM_FILE, IN_URL, IN_HEADER, IN_ARGS, IN_KEYRING, PRINTED)
WAYS = ["plain", "json", "structured", "environment", "arguments", "error", "interrupted_error", "protocol error"]
WAYS += ["resource", "link", "unknown"]


def servers(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / ".env").write_text(f"DOTENV_PASSWORD={FROM_FILE}\n")
    EncryptedFileStore(folder / "state").set("probe", IN_KEYRING)
    (folder / "printed").write_text(PRINTED)
    env = {"PROBE_TOKEN": "${PROBE_TOKEN}", "DB": "${DOTENV_PASSWORD}"}
    env |= {"STORED": "${keyring:probe}", "OUTPUT": "${command:cat printed}", "COLOUR": "a deep and quiet blue"}
    teller = hostile(folder, "teller", env=env)
    teller["teller"]["args"] += ["--token", IN_ARGS]
    away = {"url": f"http://me:{IN_URL}@127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {IN_HEADER}"}}
    return {**teller, "away": away, **more}


def config(folder: Path, **sections: Any) -> Path:
    state = {"dir": str(folder / "state"), "payloads": "all"}
    path = configuration(folder, servers(folder), state=state, **sections)
    path.write_text(f"# YAML: in a host's JSON, a command is a variable of the editor\n{path.read_text()}")
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROBE_TOKEN", TOKEN)
    return config(tmp_path)


def leaks(*texts: str | bytes) -> list[str]:
    """The secrets that are in any of the texts, as they are or as JSON writes them."""
    data = b"\n".join(text.encode("utf-8", "replace") if isinstance(text, str) else text for text in texts)
    return [secret for secret in SECRETS if secret.encode() in data or json.dumps(secret)[1:-1].encode() in data]


def everything(answer: Any) -> str:
    return repr(answer.result.model_dump())


async def test_what_an_upstream_tells_of_a_secret_is_masked(path: Path) -> None:
    """For the program too, which may do anything with it, and the model, in every part of the answer."""
    async with in_memory(path) as host:
        for way in WAYS:
            program = f"""
import codemode
try:
    r = codemode.call("teller", "tell", how={way!r})
except codemode.ToolError as error:
    r = [str(error), repr(error), error.args]
text = repr(r) + repr(getattr(r, "__dict__", ""))
print(text)
open("/workspace/told.txt", "w").write(text)
[r if isinstance(r, (str, list, dict)) else text, {TOKEN[::-1]!r} in text[::-1], "***" in text]
"""
            answer = await host.run(program)
            assert answer.value[1:] == [False, True], (way, answer.text)
            assert leaks(everything(answer)) == [], way
            assert leaks((await host.call("read_tool", path="/workspace/told.txt")).text) == [], way
        assert arrived(host.folder, "teller") == ["tell"] * len(WAYS)
        told = (await host.run("from servers.teller import tell\ntell(how='environment')")).value
        assert (told["STORED"], told["OUTPUT"]) == ("***", "***")
        assert told["COLOUR"] == "a deep and quiet blue", "control: what is no secret comes through whole"
    settings = load(path).settings.servers["teller"]
    assert (settings.env["STORED"], settings.env["OUTPUT"]) == (IN_KEYRING, PRINTED), "control: the upstream has them"


CUT = """
import codemode
told = []
for limit in (90, 200, 2_000, 4_096, 8_000):
    for before in range(limit - 18, limit, 6):
        for is_error in (True, False):
            try:
                told.append(codemode.call("teller", "tell", how="padded", before=before, is_error=is_error))
            except codemode.ToolError as error:
                told += [str(error), repr(error)]
text = repr(told)
raise ValueError([len(text), text[-500:]])
"""


async def test_no_part_of_a_secret_is_left_where_a_text_is_cut(path: Path) -> None:
    """A text is masked before it is cut, up to and past each limit of results, notes and errors."""
    async with in_memory(path) as host:
        answer = await host.run(CUT)
    assert answer.error["type"] == "ValueError", answer.text
    assert "abc abc" in everything(answer), "the control"
    parts = {TOKEN[start : start + 8] for start in range(len(TOKEN) - 7)}
    assert [part for part in parts if part in everything(answer)] == []


async def test_what_upstreams_list_is_masked(path: Path) -> None:
    """Names, titles, descriptions, instructions and schemas, wherever they are shown."""
    async with in_memory(path) as host:
        texts = []
        for tool, arguments in (
            ("list_dir", {"path": "/servers"}),
            ("list_dir", {"path": "/servers/teller"}),
            ("list_dir", {"path": "/servers/away"}),
            ("read_tool", {"path": "/servers/teller/tell.py"}),
            ("read_tool", {"path": "/servers/teller/typed.py"}),
            ("search_tools", {"query": "", "detail_level": "full"}),
            ("search_tools", {"query": TOKEN, "detail_level": "full"}),
        ):
            answer = await host.call(tool, **arguments)
            said = everything(answer).replace(f'nothing found for "{TOKEN}"', "")
            assert leaks(said) == [], said
            texts.append(said)
        assert "Uses ***" in "".join(texts)
        program = """
import servers.teller, sys
from servers.teller import tell, typed
from tool_discovery import search_tools
import linecache
[tell.__doc__, repr(servers.teller.__dict__), servers.teller.__doc__, search_tools("", "full"), dir(servers.teller)]
"""
        answer = await host.run(program)
        assert "***" in json.dumps(answer.value)
        assert leaks(everything(answer)) == []


async def everything_kept(path: Path, environment: dict[str, str]) -> dict[Path, bytes]:
    """The files of a product that has been told the secrets in each way, while it runs."""
    async with over_stdio(path, env=environment) as host:
        for way in [*WAYS, "interrupted"]:
            await host.run(
                f"import codemode\nprint('{way}')\ncodemode.call('teller', 'tell', how={way!r}, note={TOKEN!r})"
            )
        await host.run(f"raise ValueError('{TOKEN}')")
        await host.run("from servers.away import x")
        await host.run("from servers.teller import tell\ntell(how='crash')")
        await is_well(host)
        return contents(path.parent / "state")


@pytest.mark.slow
async def test_nothing_that_is_kept_or_sent_elsewhere_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record with its write-ahead log, the product's log, the traces, the commands' output; with all payloads."""
    monkeypatch.setenv("PROBE_TOKEN", TOKEN)
    environment = {"PROBE_TOKEN": TOKEN, "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    with collecting() as collector:
        path = config(tmp_path, tracing={"otlp_endpoint": collector.endpoint})
        kept = await everything_kept(path, environment)
    assert any(file.name.endswith("-wal") for file in kept)
    for file, content in contents(tmp_path / "state").items():
        kept[file] = kept.get(file, b"") + content
    assert any(b"how" in content and b"***" in content for content in kept.values()), "the payloads are there"
    assert {str(file): leaks(content) for file, content in kept.items() if leaks(content)} == {}
    spans = collector.raw
    assert b"execute_tool teller.tell" in spans
    assert b"***" in spans
    assert leaks(spans) == []
    (_, crashed, *_) = json.loads(_run(["executions", "list", "--json"], path, environment).stdout)
    for command in (
        ["config", "check"],
        ["status", "--wait", "5"],
        ["sync", str(tmp_path / "tree"), "--wait", "5"],
        ["secrets", "list"],
        ["executions", "show", crashed["execution_id"], "--json"],
    ):
        done = _run(command, path, environment)
        if command[0] != "sync":  # its output does not name the servers; its files do
            assert b"teller" in done.stdout, done.stderr
        assert leaks(done.stdout, done.stderr) == []
    tree = [file.read_bytes() for file in (tmp_path / "tree").rglob("*.py")]
    assert any(b"***" in content for content in tree)
    assert leaks(*tree) == []


def _run(command: list[str], path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        fork_server.command("-m", "codemode_server", *command, "--config", str(path)),
        env=environment,
        capture_output=True,
        check=False,
    )


async def test_our_own_processes_know_no_secret(path: Path) -> None:
    """Sandboxes and the reaper: neither environment nor command line. The upstream's own has it, which shows that
    this looks in the right place."""
    env = {"PROBE_TOKEN": TOKEN, "PATH": os.environ["PATH"]}
    async with over_stdio(path, env=env, is_forked=False) as host:
        await is_well(host)
        ours, its = {}, []
        for pid, command in children(os.getpid()).items():
            try:
                environment = (Path("/proc") / str(pid) / "environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue  # one of those that look at the machine for a moment has ended meanwhile
            if any(part.endswith("fork_server.py") for part in command):
                continue  # the tests' own; it has the environment of the test that was the first to need it
            if "codemode_server" in command:
                assert TOKEN.encode() in environment, "the product itself was given it"
                assert leaks(" ".join(command)) == []
            elif any(part.endswith("hostile.py") for part in command):
                its.append(environment)
            else:
                ours[pid] = environment + " ".join(command).encode()
        assert len(ours) >= 2
        assert leaks(*ours.values()) == []
        assert len(its) == 1
        assert TOKEN.encode() in its[0]
        assert IN_HEADER.encode() not in its[0]


async def test_a_secret_in_pieces_or_encoded_is_not_recognised(path: Path) -> None:
    """Known and documented; put together again by the program it is, on its way to the model."""
    async with in_memory(path) as host:
        answer = await host.run("from servers.teller import tell\ntell(how='split').split('\\n')")
        assert "".join(answer.value) == TOKEN
        answer = await host.run("from servers.teller import tell\n''.join(tell(how='split').split('\\n'))")
        assert answer.value == "***"
        answer = await host.run(
            "from servers.teller import tell\nimport base64\nbase64.b64encode(tell(how='base64').data).decode()"
        )
        assert base64.b64decode(answer.value) == TOKEN.encode()
