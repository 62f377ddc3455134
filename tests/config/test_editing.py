"""Edits of `upstream.yaml`: what is not edited keeps its bytes, comments included."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode_server.config import load
from codemode_server.config.file_edits import NotEditable
from codemode_server.config.places import ConfigFile
from codemode_server.config.saving import ConfigText, EditedFile
from codemode_server.domain.errors import CodemodeError
from tests.tables import rows, tables

TABLES = tables(__file__)

EXAMPLE = (Path(__file__).parents[2] / "upstream.yaml").read_text()
ENTRY: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "@x/y", "${HOME}/n"],
    "env": {"A": "${A}", "Y": "yes", "Z": "a: b #c"},
    "enabled": False,
}
COMMENTED = """\
# top
servers:   # all of them
    a:  # the first
      command: "x"  # quoted
      # within
    # after a

    b: {command: y}
    # after b
limits:
  calls: 3
"""


def change(before: str, after: str) -> list[str]:
    """The lines that were taken out and put in."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


FILES = {
    "an empty file": "",
    "comments alone": "# hi\n",
    "no end of line at the end": "# hi\nlimits:\n  calls: 3",
    "a section with comments alone": "servers:\n  # c\n\nlimits: {calls: 3}\n",
    "an empty section in braces": "servers: {}  # none\nlimits:\n  calls: 3\n",
    "a commented file": COMMENTED,
    "one line": "servers: {a: {command: x}, b: {command: y,},}\n",
    "anchors": "x-e: &e {PATH: '1'}\nservers:\n  a: &a\n    command: x\n    env: *e\n  b:\n    <<: *a\n",
    "a text of several lines": "servers:\n  a:\n    command: x\n    args:\n    - |\n      one\n      two\n\n",
    "line ends of Windows": COMMENTED.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + COMMENTED,
    "the example": EXAMPLE,
    "a host's form": 'mcpServers:\n  { "time": { "command": "uvx" } }\n',
}


@pytest.mark.parametrize("before", FILES.values(), ids=FILES)
def test_a_server_is_added_and_nothing_else_changes(before: str) -> None:
    file = ConfigText(before)
    old = file.servers()

    file.add_servers({"new": ENTRY})

    assert file.servers() == {**old, "new": ENTRY}
    removed = [line for line in change(before, file.text) if line.startswith("-")]
    assert len(removed) <= 1  # the line that was completed: `servers: {}`, or one without an end of line


def test_a_removed_server_takes_its_lines_along() -> None:
    file = ConfigText(COMMENTED)
    file.remove_server("a")

    assert change(COMMENTED, file.text) == ["-    a:  # the first", '-      command: "x"  # quoted']


@pytest.mark.parametrize(("written", "left"), rows(TABLES["protected"]))
def test_a_removed_server_is_no_longer_named_as_protected(written: str, left: str) -> None:
    file = ConfigText(f"{COMMENTED}privacy:\n{written}")
    file.remove_server("a")

    assert file.text.partition("privacy:\n")[2] == left


@pytest.mark.parametrize(
    ("name", "lines"),
    [("a", ["+      enabled: false"]), ("b", ["-    b: {command: y}", "+    b: {command: y, enabled: false}"])],
)
def test_disabling_adds_one_setting(name: str, lines: list[str]) -> None:
    file = ConfigText(COMMENTED)
    file.set_enabled(name, is_enabled=False)

    assert change(COMMENTED, file.text) == lines


@pytest.mark.parametrize("written", ["enabled: false", "disabled: true", "enabled: off"])
def test_enabling_changes_one_word(written: str) -> None:
    before = f"servers:\n  a:\n    command: x\n    {written}  # for now\n"
    file = ConfigText(before)
    file.set_enabled("a", is_enabled=True)

    word = "false" if "disabled" in written else "true"
    assert change(before, file.text)[1] == f"+    {written.partition(':')[0]}: {word}  # for now"


RULES = """\
permissions:
  # the rules
  rules:
    - deny: "a/*"  # first
    # asked since Monday
    - ask: a
      reason: why

    - {allow: b}
limits: {calls: 3}
"""


@pytest.mark.parametrize(
    ("index", "before"), [(0, '    - deny: "a/*"  # first'), (1, "    - ask: a"), (2, "    - {allow: b}")]
)
def test_a_rule_is_put_before_another_and_nothing_else_changes(index: int, before: str) -> None:
    file = ConfigText(RULES)
    file.insert_rule(index, {"allow": "a/x"})

    lines = file.text.splitlines()
    assert change(RULES, file.text) == ["+    - allow: a/x"]
    assert lines[lines.index("    - allow: a/x") + 1] == before


def test_what_others_refer_to_is_not_changed() -> None:
    file = ConfigText(FILES["anchors"])

    with pytest.raises(NotEditable, match="edit it by hand"):
        file.remove_server("a")
    with pytest.raises(NotEditable):
        file.set_enabled("a", is_enabled=False)
    assert file.text == FILES["anchors"]
    file.set_enabled("b", is_enabled=False)
    assert file.servers()["b"]["enabled"] is False


JSON = """\
{
  // mine
  "mcpServers": {
    "a": {
      "command": "x", // y
    },
  },
  "limits": {"calls": 3}
}
"""


@pytest.mark.parametrize("before", [JSON, "{}", '{"servers":{}}'])
def test_json_is_edited_too(before: str) -> None:
    file = ConfigText(before, is_json=True)
    old = file.servers()

    file.add_servers({"new": ENTRY})
    file.set_enabled("new", is_enabled=True)
    file.insert_rule(None, {"ask": "new/x"})

    assert file.servers() == {**old, "new": {**ENTRY, "enabled": True}}
    assert "// mine" in file.text or before != JSON


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_every_text_is_read_back_as_it_was(text: str) -> None:
    entry: dict[str, Any] = {"keys": {text or "x": text}, "items": [text, {"m": text}]}
    for before in ("", "servers: {b: {command: x}}"):
        file = ConfigText(before)
        file.add_servers({"a": entry})
        assert file.servers()["a"] == entry


class TestSaving:
    def edited(self, path: Path) -> EditedFile:
        return EditedFile(ConfigFile(path))

    def test_the_mode_and_a_link_stay(self, tmp_path: Path) -> None:
        real, path = tmp_path / "real.yaml", tmp_path / "upstream.yaml"
        real.write_text(COMMENTED)
        real.chmod(0o640)
        path.symlink_to(real)
        file = self.edited(path)
        file.text.remove_server("a")
        file.save()

        assert path.is_symlink()
        assert list(load(path).settings.servers) == ["b"]
        assert real.stat().st_mode & 0o777 == 0o640

    def test_what_the_loader_refuses_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "upstream.yaml"
        path.write_text(COMMENTED)
        file = self.edited(path)
        file.text.insert_rule(None, {"allow": "a/b/c"})

        with pytest.raises(CodemodeError, match=r"upstream\.yaml:\d+: permissions"):
            file.save()
        assert path.read_text() == COMMENTED
