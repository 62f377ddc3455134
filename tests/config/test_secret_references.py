"""`${keyring:NAME}` and `${command:…}` stand for secrets; what can't be resolved turns off only its server.

Read as a host started in the folder would have it read, with encrypted files for a keyring and real commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.config import load
from codemode_server.config.description import describe
from codemode_server.config.loading import load_place, locate
from codemode_server.config.places import ConfigFile
from codemode_server.domain.errors import SettingsError
from codemode_server.features.telemetry.settings import TracingSettings
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.support.file_records import TrustRecord

if TYPE_CHECKING:
    from tests.config.conftest import Folder

TOKEN = "ghp_Z7kQ9xw41LmN0pR2"
STATE = "state: {dir: state}\n"
ENV = {"PATH": "/usr/bin:/bin"}
HEADERS = STATE + 'servers: {a: {url: "http://localhost:1/mcp", headers: {Authorization: "Bearer %s"}}}'
COUNTED = "${command:sh -c 'echo run >> runs; echo %s'}" % TOKEN  # noqa: UP031 - braces


@pytest.fixture
def store(folder: Folder) -> EncryptedFileStore:
    return EncryptedFileStore(folder.path / "state")


def runs(folder: Folder) -> int:
    file = folder.path / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_secret_of_the_keyring_is_put_in_its_place(folder: Folder, store: EncryptedFileStore) -> None:
    store.set("github", TOKEN)
    loaded = folder.load(HEADERS % "${keyring:github}", env=ENV)
    assert loaded.settings.servers["a"].headers == {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("value", [TOKEN, "a quiet blue", "secret.json", "/a/path", "12345678", "http://x/y"])
def test_a_value_is_a_secret_whatever_it_looks_like(folder: Folder, store: EncryptedFileStore, value: str) -> None:
    """As a variable in `env`, most of these would not be."""
    store.set("it", value)
    loaded = folder.load(STATE + "servers: {a: {command: x, env: {COLOUR: '${keyring:it}'}}}", env=ENV)
    assert value in loaded.secrets
    assert value not in describe(loaded)
    assert value not in repr(loaded)


def test_a_secret_that_is_not_stored_turns_off_its_server_alone_and_names_the_command(folder: Folder) -> None:
    loaded = folder.load(
        "servers: {a: {command: x, env: {T: '${keyring:github}'}}, b: {command: x}}\n" + STATE, env=ENV
    )
    assert list(loaded.settings.servers) == ["b"]
    (line,) = loaded.server_errors
    assert line == (
        "upstream.yaml:1: servers.a.env.T: the secret 'github' is not stored; "
        "run: codemode-server secrets set github --config upstream.yaml"
    )


def test_a_command_that_fails_turns_off_its_server_alone(folder: Folder) -> None:
    text = "servers: {a: {command: x, env: {T: \"${command:sh -c 'echo no key >&2; exit 2'}\"}}, b: {command: x}}"
    loaded = folder.load(text, env=ENV)
    assert list(loaded.settings.servers) == ["b"]
    (line,) = loaded.server_errors
    assert line.partition("T: ")[2] == (
        "the command 'sh' ended with code 2 (run it yourself to see why); mend that, then save the configuration file "
        "again"
    )


def test_outside_of_servers_the_whole_file_is_refused(folder: Folder, store: EncryptedFileStore) -> None:
    text = STATE + "tracing: {langfuse: {public_key: pk, secret_key: '${keyring:k}'}}"
    with pytest.raises(SettingsError, match="the secret 'k' is not stored"):
        folder.load(text, env=ENV)
    store.set("k", TOKEN)
    loaded = folder.load(text, env=ENV)
    assert (TracingSettings.of(loaded.settings).langfuse.secret_key, TOKEN in loaded.secrets) == (TOKEN, True)


@pytest.mark.parametrize(
    "text",
    [
        "servers: {a: {command: '${keyring:x}'}}",
        "servers: {a: {command: x, cwd: '${command:pwd}'}}",
        "servers: {a: {command: x, description: '${keyring:x}'}}",
    ],
)
def test_where_no_secret_is_expected_there_can_be_none(folder: Folder, text: str) -> None:
    """A description, for instance, is shown to the model."""
    (line,) = folder.refusal(text, env=ENV)
    assert "can't stand here" in line


class TestWhatIsNotTrusted:
    """A repository's file must neither run a command nor read a secret before the person has trusted it."""

    TEXT = STATE + 'servers: {a: {command: x, env: {T: "%s", U: "${keyring:x}"}}}' % COUNTED  # noqa: UP031

    def test_it_runs_no_command_until_it_is_trusted(self, folder: Folder, store: EncryptedFileStore) -> None:
        store.set("x", TOKEN)
        path = folder.write("upstream.yaml", self.TEXT)
        load(cwd=folder.path, environ=ENV)
        locate(cwd=folder.path, environ=ENV)
        shown = load_place(ConfigFile(path, is_in_current_folder=True), ENV, require_trust=False)
        checked = load(cwd=folder.path, environ=ENV, require_trust=False)
        assert (runs(folder), TOKEN in checked.secrets, TOKEN in shown.secrets) == (0, False, False)
        TrustRecord(path=path, digests=dict(shown.digests)).write()
        assert TOKEN in load(cwd=folder.path, environ=ENV).secrets
        assert runs(folder) == 1, "control"


def test_check_runs_no_command_and_says_what_would_be_run(folder: Folder, store: EncryptedFileStore) -> None:
    store.set("b", TOKEN)
    text = STATE + 'servers: {a: {command: x, env: {T: "%s", U: "${keyring:b}"}}}' % COUNTED  # noqa: UP031
    loaded = load(folder.write("upstream.yaml", text), environ=ENV, cwd=folder.path, require_trust=False)
    page = describe(loaded)
    assert runs(folder) == 0
    assert "secrets: keyring:b" in page
    assert "commands that are run for secrets, and were not run by this check:\n  sh -c 'echo run >> runs; echo" in page


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mcp.json", '{"mcpServers": {"a": {"command": "x", "env": {"T": "%s"}}}}'),
        ("upstream.yaml", 'mcpServers: {"a": {"command": "x", "env": {"T": "%s"}}}'),
    ],
)
def test_in_files_of_hosts_a_command_is_a_variable_of_the_editor(folder: Folder, name: str, text: str) -> None:
    """VS Code's `${command:id}`: pasted here, it must not become a program that is started."""
    lines = folder.refusal(text % "${command:touch made}", name=name, env=ENV)
    assert not (folder.path / "made").exists()
    assert any("those of editors are not known here" in line for line in lines), lines
