"""Whole files of other hosts, given to `--config`: each is read as its host reads it, or refused with a reason; none
gives "servers: none" while it holds some. Formats are told by content: every file here has the same name."""

from __future__ import annotations

import json
import tomllib
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from codemode_server.settings import ServerSettings
    from tests.config.conftest import Folder

NOTES = {"command": "npx", "args": ("-y", "notes"), "env": {"LEVEL": "1"}}
WEB = {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer secret-of-the-web"}}
OLD = {"url": "https://b.example/sse", "transport": "sse"}
OFF = {"command": "x", "enabled": False}

FILES = {
    "claude code": """
        {"numStartups": 3, "projects": {}, "mcpServers": {
          "notes": {"type": "stdio", "command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}},
          "web": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
          "old": {"type": "sse", "url": "https://b.example/sse"},
          "off": {"command": "x", "disabled": true}}}
        """,
    "vs code": """
        {
          // user profile
          "inputs": [{"id": "token", "type": "promptString"}],
          "servers": {
            "notes": {"type": "stdio", "command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": 1}, "dev": {}},
            "web": {"type": "http", "url": "https://a.example/mcp",
                    "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
            "old": {"type": "sse", "url": "https://b.example/sse"},
            "off": {"command": "x", "enabled": false}, /* ours */
          },
        }
        """,
    "vs code's settings": """
        {"editor.fontSize": 12, "mcp": {"servers": {
            "notes": {"type": "stdio", "command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}},
            "web": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
            "old": {"type": "sse", "url": "https://b.example/sse"},
            "off": {"command": "x", "disabled": true}}}}
        """,
    "windsurf": """
        {"mcpServers": {
          "notes": {"command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}, "disabledTools": []},
          "web": {"serverUrl": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
          "old": {"serverUrl": "https://b.example/sse", "transport": "sse"},
          "off": {"command": "x", "disabled": true}}}
        """,
    "gemini": """
        {"security": {"auth": {}}, "mcp": {"excluded": ["off"]}, "tools": {"core": []}, "mcpServers": {
          "notes": {"command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}, "trust": true, "timeout": 60000},
          "web": {"httpUrl": "https://a.example/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
          "old": {"url": "https://b.example/sse"},
          "off": {"command": "x"}}}
        """,
    "cline": """
        {"mcpServers": {
          "notes": {"transport": {"type": "stdio", "command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}}},
          "web": {"transport": {"type": "streamableHttp", "url": "https://a.example/mcp",
                  "headers": {"Authorization": "Bearer ${TOKEN}"}}, "autoApprove": ["a"], "timeout": 60},
          "old": {"transport": {"type": "sse", "url": "https://b.example/sse"}},
          "off": {"transport": {"type": "stdio", "command": "x"}, "disabled": true}}}
        """,
    "opencode 1": """
        {"$schema": "https://opencode.ai/config.json", "permission": {"bash": "ask"}, "server": {"port": 1}, "mcp": {
          "notes": {"type": "local", "command": ["npx", "-y", "notes"], "environment": {"LEVEL": "1"}, "timeout": 5000},
          "web": {"type": "remote", "url": "https://a.example/mcp", "oauth": false,
                  "headers": {"Authorization": "Bearer {env:TOKEN}"}},
          "old": {"type": "sse", "url": "https://b.example/sse"},
          "off": {"type": "local", "command": ["x"], "enabled": false},
          "unsaid": {"enabled": false}}}
        """,
    "opencode 2": """
        {"mcp": {"timeout": 5000, "servers": {
          "notes": {"type": "local", "command": ["npx", "-y", "notes"], "environment": {"LEVEL": "1"}},
          "web": {"type": "remote", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}},
          "old": {"type": "sse", "url": "https://b.example/sse"},
          "off": {"type": "local", "command": ["x"], "disabled": true}}}}
        """,
    "zed": """
        {"theme": "One", "search": {"regex": true}, "context_servers": {
          "notes": {"source": "custom", "command": {"path": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}}},
          "web": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
          "old": {"url": "https://b.example/sse", "type": "sse"},
          "off": {"command": "x", "args": [], "enabled": false},
          "extension": {"source": "extension", "settings": {}}}}
        """,
    "goose": """
        GOOSE_PROVIDER: anthropic
        extensions:
          notes:
            {type: stdio, name: Notes, cmd: npx, args: [-y, notes], envs: {LEVEL: "1"}, timeout: 60, enabled: true}
          web: {type: streamable_http, uri: "https://a.example/mcp", headers: {Authorization: "Bearer ${TOKEN}"}}
          old: {type: sse, uri: "https://b.example/sse", available_tools: []}
          off: {type: stdio, cmd: x, enabled: false, args: []}
          developer: {type: builtin, enabled: true}
        """,
    "codex": """
        model = "gpt"
        [permissions]
        default = "x"

        [mcp_servers.notes]
        command = "npx"
        args = ["-y", "notes"]
        env = { LEVEL = "1" }
        env_vars = ["NOT_SET"]
        startup_timeout_sec = 20
        tool_timeout_sec = 60

        [mcp_servers.web]
        url = "https://a.example/mcp"
        bearer_token_env_var = "TOKEN"

        [mcp_servers.old]
        url = "https://b.example/sse"
        type = "sse"

        [mcp_servers.off]
        command = "x"
        enabled = false
        """,
    "amp": """
        {"amp.mcpServers": {
          "notes": {"command": "npx", "args": ["-y", "notes"], "env": {"LEVEL": "1"}},
          "web": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
          "old": {"url": "https://b.example/sse", "type": "sse"},
          "off": {"command": "x", "disabled": true}}, "amp.tools": []}
        """,
    "continue": """
        name: mine
        version: 1.0.0
        mcpServers:
          - {name: notes, command: npx, args: [-y, notes], env: {LEVEL: "1"}}
          - name: web
            type: streamable-http
            url: https://a.example/mcp
            requestOptions: {headers: {Authorization: "Bearer ${TOKEN}"}}
          - {name: old, type: sse, url: "https://b.example/sse"}
          - {name: "off", command: x, disabled: true}
        """,
}


def essence(server: ServerSettings) -> dict[str, Any]:
    """What differs from the defaults, without paths that depend on the folder."""
    return server.model_dump(exclude_defaults=True, exclude={"cwd", "timeout"})


@pytest.mark.parametrize("host", FILES)
def test_a_file_of_another_host_is_read_by_its_content(folder: Folder, host: str) -> None:
    name = "theirs" if FILES[host].strip()[0] != "{" else "theirs.json"
    loaded = folder.load(FILES[host], name=name, env={"TOKEN": "secret-of-the-web"})
    assert {name: essence(server) for name, server in loaded.settings.servers.items()} == {
        "notes": NOTES,
        "web": WEB,
        "old": OLD,
        "off": OFF,
    }
    assert loaded.settings.servers["notes"].timeout == 60
    assert loaded.invalid_servers == {}
    assert loaded.settings.permissions.rules == ()
    assert "secret-of-the-web" in loaded.secrets


@pytest.mark.parametrize("host", FILES)
def test_a_variable_that_is_not_set_turns_off_only_the_server_that_needs_it(folder: Folder, host: str) -> None:
    loaded = folder.load(FILES[host], name="theirs", env={})
    assert list(loaded.settings.servers) == ["notes", "old", "off"]
    assert "TOKEN is not set" in loaded.invalid_servers["web"][0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"editor.fontSize": 12}', "holds no servers; they are looked for under servers, mcpServers, mcp_servers, "),
        ('{"projects": {"/a": {"mcpServers": {}}}}', "holds no servers; they are looked for under"),
        ('model = "gpt"\n', "holds no servers; they are looked for under"),
        ('[mcp_servers.a]\ncommand = "x\n', ":2: column 13: this is not valid TOML"),
        (
            '[mcp_servers.a]\nargs = [\n  "x",\n',
            ":3: this is not valid TOML: it ends within a key, a text, a list or a table",
        ),
        ("[mcp_servers]\n" + "a." * 40 + "b = 1\n", "nested more than 30 levels deep"),
        ("[mcp_servers]\na = " + "[" * 5_000 + "\n", "nested more than 30 levels deep"),
        ('{"mcp": ["a"]}', "mcp: must be a mapping of names to servers"),
    ],
    ids=[
        "settings",
        "projects only",
        "codex without servers",
        "toml",
        "unfinished toml",
        "deep keys",
        "deep lists",
        "list",
    ],
)
def test_what_can_not_be_read_is_refused_with_a_reason(folder: Folder, text: str, reason: str) -> None:
    assert reason in "\n".join(folder.refusal(text, name="theirs"))


LONG = ".".join("a" * 10_000)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"[mcp_servers.a]\n{LONG} = 1\n", 2),
        (f"[mcp_servers.a]\n{LONG.replace('.', ' . ')} = 1\n", 2),
        (f"[{LONG}]\n", 1),
        (f"[[{LONG}]]\n", 1),
        (f"[mcp_servers.a]\nb = [1.5, {{{LONG} = 1}}]\n", 2),
        ("[mcp_servers.a]\n" + ".".join(["'a'"] * 10_000) + " = 1\n", 2),
        (f"[mcp_servers.a] # it's\nb = '''\n\"'''\n{LONG} = 1\n", 4),
    ],
    ids=["key", "blanks", "table", "tables", "within a value", "quoted parts", "after a text"],
)
def test_a_toml_key_of_thousands_of_parts_is_refused_in_little_memory(folder: Folder, text: str, line: int) -> None:
    """`tomllib` takes a gigabyte for them."""
    tracemalloc.start()
    try:
        refusal = folder.refusal(text, name="theirs")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f":{line}: nested more than 30 levels deep" in "\n".join(refusal)
    assert peak < 10 * 2**20


@pytest.mark.parametrize("quote", ['"', "'", '"""', "'''"])
def test_a_long_text_with_dots_in_toml_is_a_value(folder: Folder, quote: str) -> None:
    """The positive control."""
    loaded = folder.load(f"[mcp_servers.a] # {LONG}\ncommand = {quote}{LONG}{quote}\n", name="theirs")
    assert loaded.settings.servers["a"].command == LONG


def test_a_toml_file_that_takes_too_much_memory_is_refused_with_a_sentence(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loads(_text: str) -> object:
        raise MemoryError

    monkeypatch.setattr(tomllib, "loads", loads)
    refusal = folder.refusal('[mcp_servers.a]\ncommand = "x"\n', name="theirs")
    assert "there is not enough memory to read this" in "\n".join(refusal)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('"url": "unix:///run/x.sock"', "url: must begin with http:// or https://"),
        ('"type": "ws", "url": "https://h/"', "type: must be one of 'stdio', 'http', 'sse'"),
        (
            '"command": "x", "args": ["${input:token}"]',
            "args[0]: ${input:token} is a variable of an editor, which only",
        ),
        (
            '"command": "x", "cwd": "${workspaceFolder}"',
            "cwd: ${workspaceFolder} is a variable of an editor, which only the editor",
        ),
        ('"command": "x", "envFile": "nowhere.env"', "envFile: there is no such file"),
        (
            '"command": "x", "envFile": "${workspaceFolder}/.env"',
            "envFile: ${workspaceFolder} is a variable of an editor, which only",
        ),
    ],
)
def test_what_only_the_host_could_do_turns_off_that_server(folder: Folder, entry: str, reason: str) -> None:
    loaded = folder.load(f'{{"mcpServers": {{"s": {{{entry}}}, "other": {{"command": "y"}}}}}}', name="mcp.json")
    assert list(loaded.settings.servers) == ["other"]
    assert reason in loaded.invalid_servers["s"][0]


def test_an_env_file_supplies_variables_that_are_secret_and_the_entry_s_own_go_before_it(folder: Folder) -> None:
    folder.write("conf/server.env", "LEVEL=file\nPLAIN=in-the-file-only\nDOLLARS=a${B}$$\n")
    loaded = folder.load(
        '{"servers": {"s": {"command": "x", "envFile": "server.env", "env": {"LEVEL": "entry"}}}}',
        name="conf/mcp.json",
    )
    assert loaded.settings.servers["s"].env == {"LEVEL": "entry", "PLAIN": "in-the-file-only", "DOLLARS": "a${B}$$"}
    assert "in-the-file-only" in loaded.secrets


@pytest.mark.parametrize("path", ["missing.env", "~nobody-of-this-name/server.env", "x" * 5_000])
def test_an_env_file_that_is_not_there_turns_off_only_the_server_that_names_it(folder: Folder, path: str) -> None:
    entries = {"good": {"command": "x"}, "bad": {"command": "x", "envFile": path}}
    loaded = folder.load(json.dumps({"mcpServers": entries}), name="conf/mcp.json")
    assert list(loaded.settings.servers) == ["good"]
    (reason,) = loaded.invalid_servers["bad"]
    assert reason.endswith("there is no such file; correct the path or create the file")


def test_an_entry_with_an_unknown_way_to_sign_in_says_what_works(folder: Folder) -> None:
    loaded = folder.load('{"mcpServers": {"s": {"url": "https://h/", "authProviderType": "x"}}}', name="mcp.json")
    assert list(loaded.settings.servers) == ["s"]
    (warning,) = loaded.warnings
    assert "this way to sign in is not supported; try `codemode-server login`" in warning


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "mcp.json",  # Claude Code
            """{"mcpServers": {"s": {"url": "https://h/", "oauth": {"clientId": "a", "callbackPort": 8080,
            "authServerMetadataUrl": "https://i/.well-known/openid-configuration/t", "scopes": "x y"}}}}""",
            {
                "client_id": "a",
                "redirect_uri": "http://localhost:8080/callback",
                "issuer": "https://i/t",
                "scopes": ("x", "y"),
            },
        ),
        (
            "mcp.json",  # Cursor
            """{"mcpServers": {"s": {"url": "https://h/",
            "auth": {"CLIENT_ID": "a", "CLIENT_SECRET": "${env:KEY}", "scopes": ["x"]}}}}""",
            {"client_id": "a", "client_secret": "value-of-key", "scopes": ("x",)},
        ),
        (
            "mcp.json",  # Gemini CLI
            """{"mcpServers": {"s": {"httpUrl": "https://h/", "oauth": {"enabled": true, "clientId": "a",
            "issuer": "https://i", "redirectUri": "http://localhost:7777/oauth/callback"}}}}""",
            {"client_id": "a", "issuer": "https://i", "redirect_uri": "http://localhost:7777/oauth/callback"},
        ),
        (
            "opencode.json",
            """{"$schema": "https://opencode.ai/config.json", "mcp": {"s": {"type": "remote", "url": "https://h/",
            "oauth": {"clientId": "a", "clientSecret": "{env:KEY}", "scope": "x y"}}}}""",
            {"client_id": "a", "client_secret": "value-of-key", "scopes": ("x", "y")},
        ),
        (
            "config.toml",  # Codex
            """
            [mcp_servers.s]
            url = "https://h/"
            scopes = ["x"]
            oauth = { client_id = "a" }
            """,
            {"client_id": "a", "scopes": ("x",)},
        ),
        ("mcp.json", '{"mcpServers": {"s": {"url": "https://h/", "oauth": {"enabled": true}}}}', None),
    ],
    ids=["Claude Code", "Cursor", "Gemini CLI", "opencode", "Codex", "nothing said"],
)
def test_what_a_host_says_about_a_sign_in_is_used(
    folder: Folder, name: str, text: str, expected: dict[str, object] | None
) -> None:
    loaded = folder.load(text, name=name, env={"KEY": "value-of-key"})
    oauth = loaded.settings.servers["s"].oauth
    assert (oauth and oauth.model_dump(exclude_unset=True)) == expected
    assert loaded.warnings == ()
    assert ("value-of-key" in loaded.secrets) == ("KEY" in text)


def test_in_codex_s_file_a_dollar_is_only_a_dollar_and_named_variables_are_passed_on(folder: Folder) -> None:
    loaded = folder.load(
        """
        [mcp_servers.s]
        command = "x"
        args = ["${HOME}", "$$"]
        env_vars = ["KEY", { name = "OTHER", source = "local" }, "NOT_SET"]
        [mcp_servers.w]
        url = "https://h/"
        http_headers = { A = "b" }
        env_http_headers = { X-Key = "KEY" }
        """,
        name="config.toml",
        env={"KEY": "key-value", "OTHER": "other-value", "HOME": "/h"},
    )
    servers = loaded.settings.servers
    assert servers["s"].args == ("${HOME}", "$$")
    assert servers["s"].env == {"KEY": "key-value", "OTHER": "other-value"}
    assert servers["w"].headers == {"A": "b", "X-Key": "key-value"}
    assert {"key-value", "other-value"} <= loaded.secrets
