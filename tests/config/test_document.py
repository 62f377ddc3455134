"""The text of the file: what YAML and JSON are read, and what a person is told where they can't be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.config.places import MAX_BYTES
from tests.tables import rows, tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder
TABLES = tables(__file__)


@pytest.mark.parametrize(
    ("text", "told"), [*rows(TABLES["syntax"]), ("a: " + "[" * 5_000, "1: nested more than 30 levels deep")]
)
def test_a_syntax_error_is_told_with_line_and_column_and_what_to_do(folder: Folder, text: str, told: str) -> None:
    folder.path.joinpath("upstream.yaml").write_text(text + "\n")
    assert folder.refusal(text + "\n") == [f"upstream.yaml:{told}"]


@pytest.mark.parametrize("of", ["[{}]", "{{<<: [{}]}}"])
def test_an_alias_bomb_is_refused_at_once(folder: Folder, of: str) -> None:
    bomb = "a0: &x0 {a: 1}\n"
    for level in range(1, 12):
        bomb += f"a{level}: &x{level} {of.format(','.join([f'*x{level - 1}'] * 10))}\n"
    (line,) = folder.refusal(bomb)
    assert line.endswith("the file holds more than 100000 values once its aliases are written out")


def test_a_file_of_more_than_a_mebibyte_is_refused(folder: Folder) -> None:
    assert folder.refusal("#" * (MAX_BYTES + 1)) == [
        "upstream.yaml: is larger than 1 MiB, which no configuration needs"
    ]


def test_anchors_and_merge_keys_work_and_what_stands_there_goes_before_what_is_merged(folder: Folder) -> None:
    servers = folder.load(
        """
        x-common: &common
          timeout: 30
          env: &env {A: common}
        servers:
          one:
            <<: *common
            command: one
          two:
            <<: [{timeout: 5}, *common]
            command: two
            env:
              <<: *env
              B: own
          three: {<<: *common, command: three, timeout: 7}
        """
    ).settings.servers
    assert [(server.timeout, server.env) for server in servers.values()] == [
        (30, {"A": "common"}),
        (5, {"A": "common", "B": "own"}),
        (7, {"A": "common"}),
    ]


def test_arguments_and_environment_are_taken_as_they_are_written(folder: Folder) -> None:
    """A port, a switch, a version and a date are text where a process gets them; YAML would make 1.10 into 1.1."""
    server = folder.load(
        """
        servers:
          s:
            command: x
            args: [8080, 1.10, yes, 0x1F, 2026-01-01, 1_000]
            env: {PORT: 8080, DEBUG: true, VERSION: 1.10, DAY: 2026-01-01, NO: off}
        """
    ).settings.servers["s"]
    assert server.args == ("8080", "1.10", "yes", "0x1F", "2026-01-01", "1_000")
    assert server.env == {"PORT": "8080", "DEBUG": "true", "VERSION": "1.10", "DAY": "2026-01-01", "NO": "off"}


def test_json_may_have_comments_trailing_commas_and_tabs(folder: Folder) -> None:
    loaded = folder.load(
        '{\n\t// ours\n\t"servers": {\n\t\t"a": {"command": "x", "args": '
        '["//no", "/*no*/", "\\ud83d\\ude00", "\\/"], },'
        "\n\t\t/* not\n\t\tyet */\n\t},\n}\n",
        name="mcp.json",
    )
    assert loaded.settings.servers["a"].args == ("//no", "/*no*/", "😀", "/")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{\n  "servers": {"a": {"command": "x',
            "2: column 32: the quote that is opened here is not closed, or has an unknown escape",
        ),
        (
            '{\n /* servers */\n "servers": {\n "a": {"command": "x"},\n "b": {"command": ["x"]}}}',
            "5: servers.b.command: must be text, not a list",
        ),
    ],
)
def test_mistakes_in_json_have_lines_too(folder: Folder, text: str, told: str) -> None:
    assert folder.refusal(text, name="mcp.json") == [f"mcp.json:{told}"]
