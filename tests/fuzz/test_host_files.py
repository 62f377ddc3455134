"""Edits of hosts' files: damaged files that hosts wrote are edited with the rest of their data kept, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.config.host_files import entries
from codemode_server.config.host_files.difference import difference
from codemode_server.config.host_files.forms import named, servers_path
from codemode_server.config.host_files.readable import readable
from codemode_server.config.host_files.spans import HostFileNotEditable
from codemode_server.config.host_places import HOSTS, KnownHost
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
    is_list = host.id == "continue"
    try:
        text = entries.decoded(content, host.syntax)
        data = entries.read(text, host.syntax)
        path = (*servers_path(host, data), name)
        changed = entries.with_entry(text, host.syntax, path, entry, is_list=is_list)
        restored = entries.without_entry(changed, host.syntax, path)
        for other, _ in list(named(entries.find(data, path[:-1]))):
            if other != name:
                entries.without_entry(changed, host.syntax, (*path[:-1], other))
    except HostFileNotEditable as error:
        assert str(error).isprintable(), error  # noqa: PT017 - both ends are right
        return
    entries.encoded(changed, content)
    if entries.find(data, path) is None:
        before, after = (entries.find(entries.read(it, host.syntax), path[:-1]) or {} for it in (text, restored))
        assert list(named(before)) == list(named(after))


@given(files(), texts)
def test_the_diff_of_any_file_is_short_plain_lines(given_file: tuple[KnownHost, bytes], inserted: str) -> None:
    host, content = given_file
    text = content.decode("utf-8", "replace")
    lines = difference(text, text[:40] + inserted + text[60:], host.syntax, ["a"], readable({"x": [inserted, text]}))
    assert all(len(line) <= 210 and "\n" not in line and "\x1b" not in line for line in lines)
