"""Configuration files and hosts' files, which may be another person's: read or edited, or refused in plain lines."""

from __future__ import annotations

import json
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from codemode_server.config import file_edits, load
from codemode_server.config.connecting import named, servers_path
from codemode_server.config.file_edits import NotEditable, find, read
from codemode_server.config.host_reading import read_text
from codemode_server.config.hosts import HOSTS, KnownHost
from codemode_server.domain.errors import SettingsError
from tests.fuzz.strategies import damaged, names, texts, values

SECRET = "hunter2-Zq8"  # in every value that could be one
server_names = st.one_of(st.sampled_from(["github", "files", "a b", "${NAME}"]), names)
words = st.one_of(
    st.sampled_from(
        ["npx", "https://a.example/mcp", "${TOKEN}", "${TOKEN:-x}", "$$", "${input:key}", "*", "server/tool", "5s"]
    ),
    texts,
)
entries = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "command": words,
            "args": st.lists(words, max_size=3),
            "url": words,
            "httpUrl": words,
            "type": st.sampled_from(["stdio", "http", "sse", "x"]),
            "env": st.dictionaries(names, words, max_size=3),
            "environment": st.dictionaries(names, words, max_size=2),
            "headers": st.dictionaries(names, words, max_size=3),
            "cwd": words,
            "envFile": words,
            "timeout": st.one_of(st.integers(), words),
            "disabled": st.booleans(),
            "enabled": values,
            "tools": st.one_of(st.lists(words, max_size=3), values),
            "permissions": values,
            "alwaysAllow": st.lists(words, max_size=2),
            "bearer_token_env_var": words,
        },
    ),
    values,
)
trees = st.one_of(
    values,
    st.fixed_dictionaries(
        {},
        optional={
            **{
                key: st.dictionaries(server_names, entries, max_size=3)
                for key in ("servers", "mcpServers", "mcp", "context_servers")
            },
            **dict.fromkeys(
                ("permissions", "limits", "sandbox", "search", "state", "types", "telemetry", "serve"), values
            ),
        },
    ),
)


def as_yaml(tree: Any) -> str:
    dumper, text = YAML(typ="safe", pure=True), StringIO()
    dumper.width = 60
    dumper.dump(tree, text)
    return text.getvalue()


def as_toml(tree: Any) -> str:
    lines = []
    for name, entry in (tree.get("mcpServers", {}) if isinstance(tree, dict) else {}).items():
        lines.append(f"[mcp_servers.{json.dumps(name)}]")
        lines += [f"{key} = {json.dumps(item)}" for key, item in (entry.items() if isinstance(entry, dict) else ())]
    return "\n".join(lines) + "\n"


contents = damaged(
    st.builds(
        lambda tree, write: write(tree).encode("utf-8", "replace"),
        trees,
        st.sampled_from([json.dumps, as_yaml, as_toml, lambda tree: f"// a comment\n{json.dumps(tree, indent=2)}"]),
    )
)
dotenvs = damaged(
    st.lists(st.tuples(names, words).map(lambda it: f"{it[0]}={it[1]}\n"), max_size=4).map(
        lambda lines: "".join(lines).encode("utf-8", "replace")
    )
)


@given(contents, dotenvs, st.sampled_from(["upstream.yaml", "mcp.json", "config.toml", "settings.jsonc"]))
@example(b"a: &a [*a]", b"", "upstream.yaml")
@example(b"a: &a {b: &b [*a, *b]}", b"", "upstream.yaml")
@example(b'{"servers": {"a": {"command": 1, "x\\u202e\\n": 1}, "b\\u001b[2J": 1}}', b"", "mcp.json")
@example(b"? [a]\n: b", b"", "upstream.yaml")
@example(b"<<: 1", b"", "upstream.yaml")
@example(b"servers: {a: {command: '" + b"${A:-" * 2_000 + b"}" * 2_000 + b"'}}", b"", "upstream.yaml")
@example(b'{"servers": {"a": {"command": "\\ud800"}}}', b"", "mcp.json")
@example(b"a = " + b"[" * 5_000, b"", "config.toml")
@example(b"a." * 5_000 + b"b = 1", b"", "config.toml")
@example(b"a = {" + b"a . " * 20_000 + b"b = 1}", b"", "config.toml")
@example(b"\xef\xbb\xbfservers: {}", b"\xef\xbb\xbfA=1", "upstream.yaml")
@example(b"a: 0x" + b"f" * 5_000, b"", "upstream.yaml")
@example(b"a: 1:" + b"9:" * 3_000 + b"9", b"", "upstream.yaml")
@example(b"servers: {a: {command: x, timeout: .inf}}", b"", "upstream.yaml")
@example(b"", b"A='" + b"\\" * 10_000, "upstream.yaml")
@example(b"", b"export " * 5_000, "upstream.yaml")
def test_any_file_is_settings_or_an_error_in_plain_lines(content: bytes, dotenv: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        (path.parent / ".env").write_bytes(dotenv)
        environ = {"TOKEN": SECRET, "HOME": folder}
        try:
            if name == "upstream.yaml":
                messages = "\n".join(load(path, environ=environ, cwd=path.parent).all_messages)
            else:  # a host's file, as an import reads it
                messages = "\n".join(read_text(content, name, environ, path).skipped)
        except SettingsError as error:
            messages = str(error)
    assert SECRET not in messages
    assert all(line.isprintable() for line in messages.split("\n")), messages


DATA = Path(__file__).parent.parent / "config" / "host_data"
SUFFIXES = {"json": (".json", ".jsonc"), "toml": (".toml",), "yaml": (".yaml", ".yml")}
ENTRY = {"command": "/opt/codemode-server", "args": ["a b"], "env": {"A": "ü"}}


@st.composite
def files(draw: st.DrawFn) -> tuple[KnownHost, bytes]:
    """A host, and one of its files with some damage."""
    host = draw(st.sampled_from(list(HOSTS.values())))
    own = sorted(it for it in DATA.glob(f"{host.id}*") if it.suffix in SUFFIXES[host.syntax])
    content = draw(damaged(st.sampled_from([it.read_bytes() for it in own] or [b""])))
    return host, content.replace(b"\n", draw(st.sampled_from([b"\n", b"\r\n"])))


entries_of_people = st.fixed_dictionaries({"command": texts}, optional={"args": st.lists(texts, max_size=3)})


@given(files(), names, entries_of_people)
@example((HOSTS["codex"], b"a = 1\r"), "a", ENTRY)
@example((HOSTS["cursor"], b'{"mcpServers": {"a": {}, "a": {"b": 1}}}'), "a", ENTRY)
@example((HOSTS["cursor"], b"{}"), "a", {"command": "\ud800"})
@example((HOSTS["goose"], b"a: 1\n"), "a", {"command": "\ud800"})
@example((HOSTS["goose"], b"extensions: {a: {cmd: x}}\n"), "a", ENTRY)
def test_any_file_is_edited_with_its_other_data_kept_or_refused(
    given_file: tuple[KnownHost, bytes], name: str, entry: dict[str, Any]
) -> None:
    host, content = given_file
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    try:
        data = read(text, host.syntax)
        path = servers_path(host, data)
        if host.id == "continue":
            changed = file_edits.with_item(text, host.syntax, path, {"name": name, **entry})
        else:
            changed = file_edits.with_members(text, host.syntax, path, {name: entry})
        restored = file_edits.without_member(changed, host.syntax, (*path, name))
        for other, _ in list(named(find(data, path))):
            if other != name:
                file_edits.without_member(changed, host.syntax, (*path, other))
    except NotEditable as error:
        assert str(error).isprintable(), error  # noqa: PT017 - both ends are right
        return
    changed.encode()
    if find(data, (*path, name)) is None:
        before, after = (find(read(it, host.syntax), path) or {} for it in (text, restored))
        assert list(named(before)) == list(named(after))
