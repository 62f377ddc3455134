"""`codemode-server secrets`: a person stores, lists and removes secrets; no value is shown, or taken as an argument."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from codemode_server.cli import run
from codemode_server.config import LoadedSettings, load
from codemode_server.config.places import ConfigFile
from codemode_server.config.watching import changes
from codemode_server.secrets.encrypted_files import EncryptedFileStore

from .pseudo_terminal import at_terminal
from .test_commands import Run

SECRET = "ghp_Z7kQ9xw41LmN0pR2"
SERVERS = """
state: {dir: state}
servers:
  github: {command: echo, env: {TOKEN: "${keyring:github}", OTHER: "${command:pass show other}"}}
  docs: {url: "http://localhost:1/mcp", headers: {Authorization: "Bearer ${keyring:github}"}}
  tickets: {command: echo, env: {TOKEN: "${keyring:tickets}"}}
"""


Command = Callable[..., Run]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `codemode-server secrets LINE` as a user whose only configuration is `upstream.yaml` in `tmp_path`."""
    (tmp_path / "upstream.yaml").write_text(SERVERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODEMODE_CONFIG", str(tmp_path / "upstream.yaml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def call(line: str, stdin: bytes = b"") -> Run:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(["secrets", *shlex.split(line)])
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        return Run(code, printed.out, printed.err)

    return call


@pytest.fixture
def store(tmp_path: Path) -> EncryptedFileStore:
    return EncryptedFileStore(tmp_path / "state")


def test_a_value_on_stdin_is_stored_without_its_line_end(
    tmp_path: Path, command: Command, store: EncryptedFileStore
) -> None:
    done = command("set github", f"{SECRET}\n".encode())
    assert done == Run(0, f"stored github in {store.where('github')}\nused by: docs, github\n", "")
    assert store.get("github") == SECRET
    assert load(tmp_path / "upstream.yaml", environ={}).settings.servers["docs"].headers == {
        "Authorization": f"Bearer {SECRET}"
    }


@pytest.mark.parametrize(
    ("line", "stdin", "said"),
    [
        ("set github", b"\n", "nothing was entered, so nothing has changed"),
        ("set github", b"\xff", "the value on stdin is not UTF-8"),
        ("set github", b"x" * 1_000_002, "the value has more than 1,000,000 bytes"),
        (f"set github {SECRET}", b"", "a value is never an argument"),
        (f"set github={SECRET}", b"", "a value is never an argument"),
        ("set oauth/local/github", b"x", "a name has letters, digits"),
        ("remove nothing", b"", "there is no secret 'nothing'; `codemode-server secrets list` shows which there are"),
        ("remove oauth/local/github", b"", "that is a sign-in; run: codemode-server logout github"),
    ],
)
def test_what_can_not_be_done_changes_nothing(
    command: Command, store: EncryptedFileStore, line: str, stdin: bytes, said: str
) -> None:
    store.set("github", "before")
    done = command(line, stdin)
    assert (done.code, done.stdout, store.get("github")) == (2, "", "before")
    assert said in done.stderr


def test_the_list_says_where_each_is_and_who_uses_it(command: Command, store: EncryptedFileStore) -> None:
    store.set("github", SECRET)
    store.set("unused", SECRET)
    store.set("oauth/local/linear", SECRET)
    done = command("list")
    assert done.code == 1
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:5]] == [
        ["github", "docs,", f"github  {store.where('github')}"],
        ["oauth/local/linear", "a", f"sign-in     {store.where('oauth/local/linear')}"],
        ["tickets", "tickets", "not stored; run: codemode-server secrets set tickets"],
        ["unused", "-", store.where("unused")],
    ]
    assert "commands that are run for secrets:\n  pass show other\n    used by: github\n" in done.stdout
    assert done.stdout.endswith(f"new ones are stored in encrypted files in {store.folder}\n")


def test_on_a_terminal_it_is_asked_for_without_being_shown(command: Command, store: EncryptedFileStore) -> None:
    line = [sys.executable, "-m", "codemode_server", "secrets", "set", "github"]
    assert SECRET not in at_terminal(line, ("not shown): ", SECRET))
    assert store.get("github") == SECRET


async def test_a_running_product_notices_a_secret_that_is_stored(command: Command, tmp_path: Path) -> None:
    """So that nobody has to restart the host."""
    path = tmp_path / "upstream.yaml"
    before = load(path, environ={})
    assert set(before.invalid_servers) == {"github", "docs", "tickets"}
    with anyio.fail_after(60):
        news = changes(ConfigFile(path), 0.01, since=before, environ={})
        command("set tickets", SECRET.encode())
        found = await anext(news)
        await news.aclose()  # type: ignore[attr-defined]
    assert isinstance(found, LoadedSettings)
    assert set(found.invalid_servers) == {"github", "docs"}
