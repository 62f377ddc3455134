"""Edits of JSON, TOML and YAML: the data are the old ones with the change, and every other byte stays.

Documents are drawn together with their layout: indentation, line ends, comments and trailing commas.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode_server.config import file_edits
from codemode_server.config.file_edits import NotEditable, Syntax
from tests.tables import rows, tables

TABLES = tables(__file__)

ENTRY = {"command": "/opt/bin/codemode-server", "args": ["-v", "a b"], "env": {"CODEMODE_CONFIG": "/home/ü/x.yaml"}}
NAMES = st.text(alphabet="abcXYZ019_-.é/ ", min_size=1, max_size=8)
TEXTS = st.text(alphabet="abc \"\\/#,{}[]:='*é😀\t", max_size=12)
SCALARS = st.one_of(TEXTS, st.integers(-99, 99), st.booleans())
SERVERS = st.dictionaries(
    NAMES,
    st.fixed_dictionaries({"command": TEXTS}, optional={"args": st.lists(TEXTS, max_size=3), "timeout": st.integers()}),
    max_size=3,
)
OTHERS = st.dictionaries(NAMES, SCALARS, max_size=3)


@st.composite
def json_documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A file with comments and trailing commas in one of many layouts, and its data."""
    servers: dict[str, Any] = draw(SERVERS)
    before, after = draw(OTHERS), draw(OTHERS)
    data = {**before, "servers": servers, **after}
    unit = draw(st.sampled_from(["  ", "    ", "\t", " ", ""]))
    newline = draw(st.sampled_from(["\n", "\r\n"])) if unit else ""
    is_loose = bool(unit) and draw(st.booleans())

    def written(value: Any, depth: int) -> str:
        if not isinstance(value, dict) or not value:
            return json.dumps(value, ensure_ascii=False)
        rows = []
        for index, (key, inner) in enumerate(value.items()):
            comma = "," if index < len(value) - 1 or (is_loose and draw(st.booleans())) else ""
            note = draw(st.sampled_from(["", " // x, }", " /* { */"])) if is_loose else ""
            above = draw(st.sampled_from(["", f'{unit * depth}// "a": 1,{newline}'])) if is_loose else ""
            row = f"{json.dumps(key, ensure_ascii=False)}: {written(inner, depth + 1)}"
            rows.append(f"{above}{unit * depth}{row}{comma}{note}{newline}")
        return f"{{{newline}{''.join(rows)}{unit * (depth - 1)}}}"

    return written(data, 1) + draw(st.sampled_from(["", newline])), data


def added(text: str, syntax: Syntax, section: str = "servers") -> str:
    return file_edits.with_members(text, syntax, (section,), {"codemode": ENTRY})


@given(json_documents())
@settings(max_examples=200, deadline=None)
def test_an_entry_is_added_to_json_and_removed_with_every_byte_as_before(document: tuple[str, dict[str, Any]]) -> None:
    text, data = document
    changed = added(text, "json")
    assert file_edits.read(changed, "json") == {**data, "servers": {**data["servers"], "codemode": ENTRY}}
    assert file_edits.without_member(changed, "json", ("servers", "codemode")) == text


TOML = [
    "",
    'model = "x" # [a]\n',
    '[mcp_servers.a]\ncommand = \'x\'\n# note\n[mcp_servers.a.env]\nA = """\n[mcp_servers.codemode]\n"""\n',
    '[mcp_servers.a]\nargs = [\n  "]", # ]\n]\n\n[projects."/home/x.y"]\ntrust = "trusted"\n\n[mcp_servers.b]\nx = 1\n',
    "[[lists]]\nx = {a = 1, b = [2]}\n",
    "[mcp_servers]\nc.command = 'x'\nd = {command = 'y'}\n",
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("text", TOML)
def test_a_table_is_added_to_toml_and_removed_again(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    changed = added(text, "toml", "mcp_servers")
    assert changed.startswith(text)
    assert file_edits.find(file_edits.read(changed, "toml"), ("mcp_servers", "codemode")) == ENTRY
    again = file_edits.without_member(changed, "toml", ("mcp_servers", "codemode"))
    assert again.rstrip() == text.rstrip()


@st.composite
def yaml_documents(draw: st.DrawFn) -> str:
    """Files of goose: a mapping `extensions` at any place."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    indent = draw(st.sampled_from(["  ", "    "]))
    blocks = [
        "# a comment: x\nGOOSE_MODEL: gpt # note\n",
        f"extensions:\n{indent}a:\n{indent}  cmd: x\n{indent}  args: [1, '}}']\n\n{indent}# about b\n{indent}b:\n"
        f"{indent}    cmd: |\n{indent}      text: 1\n{indent}      more\n",
        "x:\n- 1\n-   2 # z\n",
        "text: >-\n  folded: a\n\n  b\n",
    ]
    order = draw(st.permutations(range(len(blocks))))
    chosen = [index for index in order if index == 1 or draw(st.booleans())]
    return "".join(blocks[index] for index in chosen).replace("\n", newline)


@given(yaml_documents(), st.sampled_from(["a", "b"]))
@settings(max_examples=100, deadline=None)
def test_a_member_is_added_to_yaml_and_removed_with_every_byte_as_before(text: str, name: str) -> None:
    changed = added(text, "yaml", "extensions")
    assert file_edits.find(file_edits.read(changed, "yaml"), ("extensions", "codemode")) == ENTRY
    assert file_edits.without_member(changed, "yaml", ("extensions", "codemode")) == text
    less = file_edits.without_member(text, "yaml", ("extensions", name))
    assert _is_subsequence(less, text)
    assert "# about b" in less


@pytest.mark.parametrize(
    "text",
    [
        "mcpServers:\n  - name: x\n    command: a # z\n\n# end\nz: 1\n",
        "mcpServers:\n- name: x\n  command: a\n-   command: b\n    name: y\n",
        "mcpServers: [{name: x, command: a}]\n",
    ],
)
def test_an_item_is_added_to_a_list_of_yaml_and_removed_with_every_byte_as_before(text: str) -> None:
    changed = file_edits.with_item(text, "yaml", ("mcpServers",), {"name": "codemode", **ENTRY})
    path = ("mcpServers", "codemode")
    assert file_edits.find(file_edits.read(changed, "yaml"), path) == {"name": "codemode", **ENTRY}
    assert file_edits.without_member(changed, "yaml", path) == text


RULES = [
    "rules:\n  - allow: a  # mine\n  # about b\n  - ask: b\n    effect: read\n\n  - deny: c\n# end\n",
    "rules: [{allow: a}, {ask: b, effect: read}, {deny: c}]\n",
    '{"rules": [{"allow": "a"}, {"ask": "b", "effect": "read"}, {"deny": "c"}]}',
]


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("text", RULES)
def test_an_item_is_removed_from_a_list_by_its_place_and_the_others_stay(text: str, index: int) -> None:
    syntax: Syntax = "json" if text.startswith("{") else "yaml"
    rules = list(file_edits.find(file_edits.read(text, syntax), ("rules",)))
    less = file_edits.without_item(text, syntax, ("rules",), index)
    del rules[index]
    assert file_edits.find(file_edits.read(less, syntax), ("rules",)) == rules
    if syntax == "yaml":
        assert _is_subsequence(less, text)
        assert less.count("#") == text.count("#") - ("# mine" in text and index == 0)


def test_a_list_on_one_line_is_replaced_where_it_stands() -> None:
    text = "servers:\n  a:\n    args: [x, y]  # of a\n    cwd: /z\n"
    changed = file_edits.with_members(text, "yaml", ("servers", "a"), {"args": ["x", "a b", "--flag"]})
    assert changed == text.replace("[x, y]", '[x, "a b", "--flag"]')


def test_a_text_within_braces_is_quoted_as_they_need_it() -> None:
    text = "servers: {a: {env: {TOKEN: x, REGION: eu}}}\n"
    changed = file_edits.with_members(text, "yaml", ("servers", "a", "env"), {"TOKEN": "${TOKEN}", "REGION": "a, b"})
    assert changed == text.replace("x", '"${TOKEN}"').replace("eu", '"a, b"')


@pytest.mark.parametrize(("syntax", "text"), rows(TABLES["made"]))
def test_what_is_not_there_is_made(syntax: Syntax, text: str) -> None:
    changed = added(text, syntax)
    assert file_edits.find(file_edits.read(changed, syntax), ("servers", "codemode")) == ENTRY
    again = file_edits.without_member(changed, syntax, ("servers", "codemode"))
    assert not file_edits.find(file_edits.read(again, syntax), ("servers", "codemode"))


@pytest.mark.parametrize(
    ("syntax", "text", "reason"),
    [
        *rows(TABLES["refused"]),
        ("json", "{" + '"a":{' * 200_000, "nested too deeply"),
        ("json", '{"servers": {}, "a": ' + "9" * 5_000 + "}", "too many digits"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_with_line_and_reason(syntax: Syntax, text: str, reason: str) -> None:
    with pytest.raises(NotEditable, match=reason):
        added(text, syntax)


def _is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(character in rest for character in short)
