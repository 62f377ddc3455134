"""From a raw result to a program's value: what is parsed, what stays a text, what is a block. Pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.errors import ToolFailed
from codemode_server.sandbox.backend import Reply
from codemode_server.upstream._texts import parse_text
from codemode_server.upstream.results import to_reply


def texts(*blocks: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in blocks]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        (" [1, 2]\n", [1, 2]),
        ("[{'a': 1, 'b': None}]", [{"a": 1, "b": None}]),
        ("[(42,)]", [[42]]),
        ("(1, 'x')", [1, "x"]),
        ("{1: b'x'}", {"1": "b'x'"}),
        ("{}", {}),
    ],
)
def test_a_text_that_plainly_is_a_value_becomes_it(text: str, value: Any) -> None:
    """Servers without structuredContent answer in JSON (calc) or Python's repr (sqlite, duckdb)."""
    assert parse_text(text) == value
    assert type(parse_text(text)) is type(value)


def test_a_large_result_has_the_same_shape_as_a_small_one() -> None:
    """Ten thousand rows as a database server's `repr`: past what `ast` is given, and still rows."""
    rows = [{"id": n, "name": f"O'Neill {n}", "note": None, "pair": (n, True)} for n in range(10_000)]
    assert parse_text(repr(rows)) == [{**row, "pair": list(row["pair"])} for row in rows]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "00123",
        "1.10",
        "1e5",
        "+49",
        "-0",
        "1_000",
        "NaN",
        "٣",
        '"quoted"',
        "True",
        "[link](http://x)",
        "(see above)",
        "[not json",
        "{x}",
        "",
        "9" * 50,
        "[" * 100_000,
        "(" * 100_000 + ")",
        "{'a': __import__('os')}",
        "[" + "1, " * 100_000 + "x]",
    ],
)
def test_a_text_that_would_lose_something_stays_a_text(text: str) -> None:
    """An id like 00123, a version like 1.10 or a hash like 1e5 must come back as the server wrote it."""
    assert parse_text(text) is text


def test_structured_content_wins_over_its_copy_in_text() -> None:
    assert to_reply({**texts('{"a": 1}'), "structuredContent": {"a": 2}}) == Reply({"a": 2})


def test_a_lone_result_key_is_unwrapped() -> None:
    """SDKs wrap what is no object in `{"result": …}`."""
    assert to_reply({"structuredContent": {"result": [1, 2]}}) == Reply([1, 2])
    assert to_reply({"structuredContent": {"result": 1, "more": 2}}) == Reply({"result": 1, "more": 2})
    assert to_reply({"content": [], "structuredContent": {"result": None}}) == Reply(None)
    assert to_reply({"content": [], "structuredContent": [1, 2]}) == Reply([1, 2])


def test_several_texts_are_a_list_if_each_is_a_value_else_one_text() -> None:
    """SDKs send a returned list as a block for each item."""
    assert to_reply(texts('{"a": 1}', '{"a": 2}')) == Reply([{"a": 1}, {"a": 2}])
    assert to_reply(texts("1", "two")) == Reply("1\ntwo")


def test_nothing_is_none() -> None:
    assert to_reply({"content": []}) == Reply(None)
    assert to_reply({}) == Reply(None)


def test_a_result_off_the_schema_is_handed_over_as_it_is() -> None:
    assert to_reply({"foo": 1, "_meta": {}}) == Reply({"foo": 1})
    assert to_reply({"toolResult": [1]}) == Reply([1])
    assert to_reply("what") == Reply("what")
    assert to_reply({"content": "no list"}) == Reply(None)
    assert to_reply({"content": [3, {"type": "weird"}]}) == Reply(
        [{"type": "json", "value": 3}, {"type": "json", "value": {"type": "weird"}}], "blocks"
    )


def test_files_come_as_blocks_beside_the_texts() -> None:
    result = {
        "content": [
            {"type": "text", "text": "a picture"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///d/x.bin", "blob": "aGk=", "mimeType": "a/b"}},
            {"type": "resource", "resource": {"uri": "file:///d/x.txt", "text": "inside"}},
            {"type": "resource_link", "uri": "https://h/y.pdf", "name": "Y"},
        ]
    }
    assert to_reply(result) == Reply(
        [
            {"type": "text", "text": "a picture"},
            {"type": "file", "data": "aGk=", "mime_type": "image/png", "name": None, "uri": None},
            {"type": "file", "data": "aGk=", "mime_type": "a/b", "name": "x.bin", "uri": "file:///d/x.bin"},
            {"type": "file", "text": "inside", "mime_type": None, "name": "x.txt", "uri": "file:///d/x.txt"},
            {"type": "file", "mime_type": None, "name": "Y", "uri": "https://h/y.pdf"},
        ],
        "blocks",
    )


def test_a_file_beside_structured_content_is_not_lost() -> None:
    """The value is the object that the output schema declares; what came with it stands beside it."""
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    file = {"type": "file", "data": "aGk=", "mime_type": "image/png", "name": None, "uri": None}
    reply = to_reply({"structuredContent": {"width": 3}, "content": [image]})
    assert reply == Reply([{"type": "json", "value": {"width": 3}, "beside": {"files": [file]}}], "blocks")
    listed = to_reply({"structuredContent": {"result": [1]}, "content": [image]})
    assert listed == Reply([{"type": "json", "value": [1]}, file], "blocks")


def test_data_that_is_no_base64_is_made_so() -> None:
    """The guest decodes it, and must not fail over a server's mistake."""
    reply = to_reply({"content": [{"type": "image", "data": "not base64!"}]})
    assert reply.value[0]["data"] == "bm90IGJhc2U2NCE="


def test_an_error_carries_the_servers_words_cleaned_and_bounded() -> None:
    with pytest.raises(ToolFailed, match=r"^red one\ntwo$"):
        to_reply({"isError": True, **texts("\x1b[31mred\x1b[0m one", "two")})
    with pytest.raises(ToolFailed) as raised:
        to_reply({"isError": True, **texts("x" * 100_000)})
    assert len(str(raised.value)) < 2_100
    with pytest.raises(ToolFailed, match='"why"'):
        to_reply({"isError": True, "content": [], "structuredContent": {"why": 1}})
    with pytest.raises(ToolFailed, match="did not say"):
        to_reply({"isError": True})


def test_a_request_for_input_is_an_error_that_says_so() -> None:
    """2026-07-28 servers ask in their result; there is nobody to ask yet."""
    with pytest.raises(ToolFailed, match="input from a person"):
        to_reply({"resultType": "input_required", "inputRequests": {}})
