"""A call in a few words: its arguments tell it from others of the same tool, and nothing is cut without saying
so. And the message on a path of /workspace that was given to a tool."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.calls.call_reports import message_on_path
from codemode_server.calls.summaries import of_arguments, of_reply
from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply
from codemode_server.support.redaction import MASK, Redactor
from tests.work import lines_run

SECRET = "ghp_0123456789abcdef"
LINK = {"type": "file", "mime_type": "text/plain", "name": "a", "uri": "demo://a"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([{"entityType": "person", "name": "Alice"}], '[1 item: "Alice"]'),
        ([{"oldText": "x" * 50, "newText": "short"}, {}], '[2 items: "short", …]'),
        ([{"count": 7, "parts": []}], "[1 item: 7]"),
        (["bug", "ui"], '[2 items: "bug", …]'),
        ([f"{SECRET}{'x' * 40}"], f'[1 item: "{MASK}{"x" * 28}…"]'),
        ([[1], [2]], "[2 items]"),
        ([{}], "[1 item]"),
        ([], "[0 items]"),
        ({"a": 1}, "{1 key}"),
        (f"/home/someone/{SECRET}/project/src/a.txt", f'"…e/someone/{MASK}/project/src/a.txt"'),
        ("/home/someone/projects/of-mine/src/a.txt", '"…eone/projects/of-mine/src/a.txt"'),
        ("a sentence with a / in it, and many words", '"a sentence with a / in it, and …"'),
    ],
)
def test_an_argument_shows_what_tells_it_from_others(value: Any, shown: str) -> None:
    assert of_arguments({"it": value}, Redactor([SECRET])) == {"it": shown}


def test_an_argument_that_a_person_is_to_see_is_longer() -> None:
    text = f"{SECRET} {'word ' * 35}end"
    assert of_arguments({"it": text}, Redactor([SECRET]), 240) == {"it": f'"{text.replace(SECRET, MASK)}"'}


def test_a_reply_of_many_blocks_says_how_many_and_that_links_are_links() -> None:
    blocks = [{"type": "text", "text": "Here are 10 links"}, *[LINK] * 10]
    told = of_reply(Reply(blocks, "blocks"), Redactor())
    assert told == '11 items: "Here are 10 links", a link (text/plain), a link (text/plain), …'
    few = of_reply(Reply([{**LINK, "data": "AAAA"}, LINK], "blocks"), Redactor())
    assert few == "a file (text/plain), a link (text/plain)", "control: what is whole is not counted"


def test_arguments_of_very_many_empty_lists_are_searched_in_part_only() -> None:
    """Of hostile arguments, on the event loop."""
    failure = "no such file: /workspace/a.csv"
    hostile: JsonValue = [[] for _ in range(1_000_000)]
    messages: list[str | None] = []
    assert lines_run(lambda: messages.append(message_on_path("files.read", hostile, failure))) < 20_000
    assert messages == [None]
    note = message_on_path("files.read", {"paths": ["/workspace/a.csv"]}, failure)
    assert note is not None
    assert note.startswith("files.read failed on '/workspace/a.csv': servers do not see the programs' /workspace")
