"""Edits of hosts' files: damaged files that hosts wrote are edited with the rest of their data kept, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.config import file_edits
from codemode_server.config.file_edits import NotEditable, find, read
from codemode_server.config.host_files.own_entries import named, servers_path
from codemode_server.config.hosts import HOSTS, KnownHost
from tests.fuzz.strategies import damaged, names, texts

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
