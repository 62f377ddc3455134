"""From a raw result to a program's value: what is parsed, what stays a text, what is a block. Pure functions."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from codemode_server.domain.errors import ResultTooLarge, ToolFailed
from codemode_server.domain.tools import ANY_FORM, ResultForm
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.results import resource_reply, to_reply
from codemode_server.upstreams.text_values import parse_text


def texts(*blocks: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in blocks]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', {"a": [1]}),
        (" [1, 2]\n", [1, 2]),
        ("[{'a': 1, 'b': None}]", [{"a": 1, "b": None}]),
        ("[(42,)]", [[42]]),
        ("(1, 'x')", [1, "x"]),
        ("{}", {}),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": "é"}\r\n\r\n{"b": [1]}', [{"a": "é"}, {"b": [1]}]),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("```\n[1, 2]\n```\n", [1, 2]),
    ],
)
def test_a_text_that_plainly_is_a_value_becomes_it(text: str, value: Any) -> None:
    """Servers without structuredContent answer in JSON (calc) or Python's repr (sqlite, duckdb)."""
    assert parse_text(text) == value
    assert type(parse_text(text)) is type(value)


def test_what_databases_hold_beside_plain_values_is_read_from_repr_too() -> None:
    """mcp-server-duckdb answers so; without this a column of dates would make a text of all rows."""
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    rows = [(moment.date(), moment, moment.time(), timedelta(hours=30), Decimal("1.50"), UUID(int=5), Decimal(1) / 3)]
    assert parse_text(repr(rows)) == [
        [
            "2026-01-02",
            "2026-01-02T03:04:00+00:00",
            "03:04:00",
            "1 day, 6:00:00",
            1.5,
            "00000000-0000-0000-0000-000000000005",
            "0.3333333333333333333333333333",
        ]
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("8", "-1.5", " 42 ", "true", "null", "(1)", "(None)", "()", "[(1)]", "[ ]", "[\t]"),
        "00123",
        "[datetime.date(2026, 13, 1)]",
        "[datetime.date(2026, 1, 1, x=3)]",
        "[datetime.datetime(2026, 1, 1, tzinfo=<UTC>)]",
        "[Decimal('abc')]",
        "[datetime.date(" + "1, " * 100_000,
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
        '{"a": 1}\nNext cursor: abc',
        'Found 2 rows:\n[{"a": 1}]',
        '{"a": 1}\n{"a": 2',
        '```json\n{"a": 1}\n```\nSee above.',
        "```python\n[1, 2]\n```",
        "```\nplain\n```",
        '```json\n{"a": 1}',
    ],
)
def test_a_text_that_would_lose_something_stays_a_text(text: str) -> None:
    """An id like 00123, a version like 1.10 or a hash like 1e5 must come back as the server wrote it; so must a cursor
    or a count beside JSON."""
    assert parse_text(text) is text


NUMBERS = ResultForm(scalars=frozenset({"integer"}))
ROWS, NAMES = ResultForm(is_list=True), ResultForm(is_list=True, holds_texts=True)
COUNTS = ResultForm(is_list=True, scalars=frozenset({"number", "null"}))


@pytest.mark.parametrize(
    ("form", "blocks", "value"),
    [
        (NUMBERS, ["42"], 42),
        (NUMBERS, ["4.5"], "4.5"),
        (NUMBERS, ["none found"], "none found"),
        (ResultForm(scalars=frozenset({"boolean", "null"})), ["null"], None),
        (ROWS, ['{"id": 1}', '{"id": 2}'], [{"id": 1}, {"id": 2}]),
        (ROWS, ['{"id": 1}'], [{"id": 1}]),
        *((ROWS, blocks, []) for blocks in ([], [""], ["[]"], ["[ ]"], ["null"])),
        (ROWS, ['[{"id": 1}]'], [{"id": 1}]),
        (ROWS, ["no rows match"], "no rows match"),
        *((NAMES, names, names) for names in ([], ["a"], ["a", "7"], ["null"])),
        (NAMES, ['["a", "b"]'], ["a", "b"]),
        (NAMES, ['{"a": 1}', '["b"]'], ['{"a": 1}', '["b"]']),
        *((COUNTS, [str(number) for number in numbers], numbers) for numbers in ([], [1], [1, 2.5])),
    ],
)
def test_texts_are_read_as_the_tool_declares_or_has_given_them(form: ResultForm, blocks: list[str], value: Any) -> None:
    found = to_reply(texts(*blocks), form=form)
    assert (found.value, found.is_block_list) == (value, len(blocks) > 1)


@pytest.mark.parametrize(
    ("form", "structured", "value"),
    [
        (ROWS, {"result": {"id": 1}}, [{"id": 1}]),
        (ROWS, {"result": None}, []),
        (ROWS, {}, []),
        (ROWS, {"id": 1}, [{"id": 1}]),
        (NAMES, {"result": "alpha"}, ["alpha"]),
        (ResultForm(is_list=True, may_be_null=True), {"result": None}, None),
        (ANY_FORM, {"result": "alpha"}, "alpha"),
    ],
)
def test_a_structured_value_is_a_list_where_one_is_declared(form: ResultForm, structured: Any, value: Any) -> None:
    assert to_reply({"content": [], "structuredContent": structured}, form=form) == Reply(value)


def test_a_list_of_too_many_values_is_a_failure_and_no_text() -> None:
    def listed(rows: int) -> dict[str, Any]:
        return texts(*(json.dumps({"id": row, "x": [1, 2, 3]}) for row in range(rows)))

    assert len(to_reply(listed(50_000)).value) == 50_000, "control"
    with pytest.raises(ResultTooLarge, match="more than 500,000 values; ask for less of it"):
        to_reply(listed(100_000))
    assert isinstance(to_reply(texts(*[": , : ," * 100_000] * 2)).value, str), "what is no JSON stays a text"


def test_blocks_of_unknown_kinds_are_handed_over_as_they_are() -> None:
    assert to_reply({"content": [3, {"type": "weird"}]}) == Reply(
        [{"type": "json", "value": 3}, {"type": "json", "value": {"type": "weird"}}], "blocks"
    )


def test_files_come_as_blocks_beside_the_texts() -> None:
    result = {
        "content": [
            {"type": "text", "text": "a picture"},
            {"type": "image", "data": "data:image/png;base64,aGk=", "mimeType": "image/png"},
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


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [("iVBORw0KGgoAAAAN", "image/png"), ("/9j/4AAQ", "image/jpeg"), ("aGk=", "application/octet-stream")],
)
def test_an_image_without_a_type_is_known_by_its_first_bytes(data: str, mime_type: str) -> None:
    file = {"type": "file", "data": data, "mime_type": mime_type, "name": None, "uri": None}
    assert to_reply({"content": [{"type": "image", "data": data}]}) == Reply([file], "blocks")


def test_a_file_beside_structured_content_is_not_lost() -> None:
    """The value is the object that the output schema declares; what came with it stands beside it."""
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    file = {"type": "file", "data": "aGk=", "mime_type": "image/png", "name": None, "uri": None}
    reply = to_reply({"structuredContent": {"width": 3}, "content": [image]})
    assert reply == Reply([{"type": "json", "value": {"width": 3}, "beside": {"files": [file]}}], "blocks")
    listed = to_reply({"structuredContent": {"result": [1]}, "content": [image]})
    assert listed == Reply([{"type": "json", "value": [1]}, file], "blocks")


def test_an_error_carries_the_servers_words_cleaned_and_bounded() -> None:
    with pytest.raises(ToolFailed, match=r"^red one\ntwo$"):
        to_reply({"isError": True, **texts("\x1b[31mred\x1b[0m one", "two")})
    with pytest.raises(ToolFailed) as raised:
        to_reply({"isError": True, **texts("x" * 100_000)})
    assert len(str(raised.value)) < 2_100
    for result, said in [
        ({"content": [], "structuredContent": {"why": 1}}, '{"why": 1}'),
        (texts("Failed") | {"structuredContent": {"why": "row 7"}}, 'Failed\n{"why": "row 7"}'),
        (texts("Failed: row 7") | {"structuredContent": {"why": "row 7"}}, "Failed: row 7"),
        ({"message": "no such door"}, "no such door"),
        ({"message": "no", "hint": "knock"}, '{"message": "no", "hint": "knock"}'),
        ({}, "the tool reported an error and did not say which"),
    ]:
        with pytest.raises(ToolFailed, match=f"^{re.escape(said)}$"):
            to_reply({"isError": True, **result})


def test_a_request_for_input_is_an_error_that_says_so() -> None:
    """2026-07-28 servers ask in their result; there is nobody to ask yet."""
    with pytest.raises(ToolFailed, match="input from a person"):
        to_reply({"resultType": "input_required", "inputRequests": {}})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("application/json", "[1]", [1]),
        ("application/vnd.api+json; charset=utf-8", '{"a": 1}', {"a": 1}),
        ("text/plain", "[1]", "[1]"),
        (None, "[1]", [1]),
    ],
)
def test_an_embedded_text_alone_is_the_text_and_read_if_it_is_json(kind: str | None, text: str, value: Any) -> None:
    resource = {"uri": "file:///x", "text": text, **({"mimeType": kind} if kind else {})}
    assert to_reply({"content": [{"type": "resource", "resource": resource}]}) == Reply(value)


def test_an_embedded_text_beside_others_keeps_its_uri() -> None:
    """GitHub's server says where a file is from in a text before it; joined, the file would be spoilt."""
    resource = {"type": "resource", "resource": {"uri": "repo://a/b.py", "text": "x = 1", "mimeType": "text/x-python"}}
    reply = to_reply({"content": [{"type": "text", "text": "downloaded (SHA: 1)"}, resource]})
    assert reply.value[1] == {
        "type": "file",
        "text": "x = 1",
        "mime_type": "text/x-python",
        "name": "b.py",
        "uri": "repo://a/b.py",
    }


def test_json_text_beside_a_file_is_read() -> None:
    content = [{"type": "text", "text": '{"width": 3}'}, {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]
    assert to_reply({"content": content}).value[0] == {"type": "json", "value": {"width": 3}}


@pytest.mark.parametrize(
    ("value", "said", "beside"),
    [
        ({"path": "a.txt"}, ["line 1\nline 2"], "line 1\nline 2"),
        ({"count": 2}, ["# Two", "and more"], "# Two\nand more"),
        ([{"id": 1}], ["One issue: the door squeaks."], "One issue: the door squeaks."),
        (42, ["42 (three days old)"], "42 (three days old)"),
        ("hello", ["hello, cut"], "hello, cut"),
        (42, ["42"], None),
        ("hello", ["hello"], None),
        (True, ["true"], None),
        ({"path": "a.txt"}, ['{"path": "a.txt"}'], None),
        ({"path": "a.txt"}, [" a.txt\n"], None),
        ([1, 2], ["1", "2"], None),
        (["a", "b"], ["a", "b"], None),
        ([{"id": 1}], ['{"id": 1}'], None),
        ({}, ["nothing"], "nothing"),
        ({"entities": [{"id": 1}]}, ['[\n  {"id": 1}\n]'], None),
        ({"page": {"items": [1, 2]}}, ["1", "2"], None),
        ({"sum": 3}, ["3"], None),
        ({"ok": True}, ["1"], "1"),
        ({"entities": [{"id": 1}]}, ['[{"id": 2}]'], '[{"id": 2}]'),
    ],
)
def test_a_text_that_says_more_than_the_value_stands_beside_it(value: Any, said: list[str], beside: str | None) -> None:
    """Servers put a summary for a view into the value, and the page that was asked for in the text. The reference
    server for memory gives the JSON of a part of the value."""
    replies = [to_reply({**texts(*said), "structuredContent": it}) for it in (value, {"result": value}) if it]
    stands = (
        Reply(value)
        if beside is None
        else Reply([{"type": "json", "value": value, "beside": {"text": beside}}], "blocks")
    )
    assert all(reply == stands for reply in replies), replies


ENVELOPE = {"content": [{"type": "text", "text": '{"a": 1}'}]}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({**texts('{"a": 2}'), "structuredContent": {"a": 2}}, {"a": 2}),
        ({"structuredContent": {"result": [1, 2]}}, [1, 2]),  # SDKs wrap what is no object so
        ({"structuredContent": {"result": 1, "more": 2}}, {"result": 1, "more": 2}),
        ({"content": [], "structuredContent": {"result": None}}, None),
        ({"content": [], "structuredContent": [1, 2]}, [1, 2]),
        ({"structuredContent": {"result": '[{"a": 1}]'}}, [{"a": 1}]),  # a declared string is often JSON
        ({"structuredContent": {"result": "00123"}}, "00123"),
        ({"structuredContent": {"result": "8"}}, "8"),
        ({"structuredContent": {"content": "[1]"}}, {"content": "[1]"}),
        (texts("1", "two"), "1\ntwo"),
        ({"foo": 1, "_meta": {}}, {"foo": 1}),  # off the schema
        ({"toolResult": [1]}, [1]),
        ("what", "what"),
        ({"content": "no list"}, "no list"),
        # Of another form.
        ({"toolResult": ENVELOPE}, {"a": 1}),
        ({"structuredContent": ENVELOPE | {"isError": False}}, {"a": 1}),
        ({"structuredContent": ENVELOPE}, ENVELOPE),
        ({"structuredContent": {"result": ENVELOPE | {"isError": False}}}, {"a": 1}),
        (texts(json.dumps({"content": [], "structuredContent": {"b": 2}, "isError": False})), {"b": 2}),
        (texts(json.dumps(texts(json.dumps(ENVELOPE)))), {"a": 1}),
        ({"content": "[1]"}, [1]),
        ({"content": {"type": "text", "text": "one"}}, "one"),
        ({"content": {"rows": []}}, {"rows": []}),
        ({"content": ["a", {"text": "b"}]}, "a\nb"),
        ({"content": [{"type": "TEXT", "text": {"a": 1}}]}, {"a": 1}),
        ({"content": [{"type": "text", "text": None}], "isError": "false"}, ""),
        ({"content": None, "structuredContent": None}, None),
        ({"content": ENVELOPE}, {"a": 1}),
        (texts(json.dumps({"result": ENVELOPE})), {"a": 1}),
        (texts(json.dumps({"jsonrpc": "2.0", "id": 1, "result": ENVELOPE})), {"a": 1}),
        (texts(json.dumps(ENVELOPE["content"])), {"a": 1}),
        (texts(json.dumps({"content": [], "structuredContent": {"b": 2}})), {"b": 2}),
        (texts(json.dumps({"content": "one", "isError": "false"})), "one"),
        # Data that only look like an envelope.
        (texts('{"result": {"a": 1}}'), {"result": {"a": 1}}),
        (texts('[{"type": "text"}, {"type": "note"}]'), [{"type": "text"}, {"type": "note"}]),
        (texts('{"content": "one"}'), {"content": "one"}),
        (texts('{"error": "one", "message": "two"}'), {"error": "one", "message": "two"}),
        (texts('{"content": [], "total": 0}'), {"content": [], "total": 0}),
        (texts('{"content": [{"type": "paragraph"}]}'), {"content": [{"type": "paragraph"}]}),
        (texts('{"content": []}'), {"content": []}),
    ],
)
def test_a_result_is_the_value_in_it_also_in_another_form(result: Any, value: Any) -> None:
    """Gateways pass on whole results of other servers; hand-written servers take `content` for the value."""
    assert to_reply(result) == Reply(value)


@pytest.mark.parametrize(
    "result",
    [
        {"isError": "true", **texts("no such door")},
        {"isError": 1, "content": "no such door"},
        {"toolResult": {**texts("no such door"), "isError": True}},
        texts(json.dumps({**texts("no such door"), "isError": True})),
        {"isError": True, **texts(json.dumps({**texts("no such door"), "isError": True}))},
        {"structuredContent": {**texts("no such door"), "isError": True}},
        {"is_error": True, **texts("no such door")},
        {"isError": True, "error": "no such door"},
        {"isError": True, "content": [], "error": {"code": 3, "message": "no such door"}},
        {"isError": True, "message": "no such door"},
        texts(json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no such door"}})),
        texts(json.dumps({"content": "no such door", "isError": "true"})),
        texts(json.dumps({"isError": True, "error": "no such door"})),
    ],
)
def test_an_error_in_another_form_or_in_an_envelope_is_one(result: Any) -> None:
    with pytest.raises(ToolFailed, match=r"^no such door$"):
        to_reply(result)


def test_a_resource_is_files_or_a_failure() -> None:
    contents = [{"uri": "d://a", "text": "x", "mimeType": "text/plain"}, {"blob": "aGk="}, {"uri": "d://c"}, 3]
    reply = resource_reply("d://", {"contents": contents})
    assert reply == Reply(
        [
            {"type": "file", "text": "x", "mime_type": "text/plain", "name": "a", "uri": "d://a"},
            {"type": "file", "data": "aGk=", "mime_type": None, "name": "d:", "uri": "d://"},
        ],
        "blocks",
    )
    nothings: list[Any] = [{"contents": []}, {}, {"contents": "x"}, [1]]
    for nothing in nothings:
        with pytest.raises(ToolFailed, match="without contents"):
            resource_reply("d://", nothing)
