"""What tools answer: any text is a value that can be passed on or the text itself, any result a reply or a failure."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.domain.errors import ToolFailed
from codemode_server.sandbox.guest import encoded as guest_encoded
from codemode_server.upstreams.results import failure_of, resource_reply, to_reply
from codemode_server.upstreams.text_values import parse_document, parse_text, parse_texts
from tests.fuzz.strategies import (
    damaged,
    objects,
    texts,
    values,
)

literals = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20), st.binary(max_size=9)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), inner, max_size=4),
    ),
    max_leaves=15,
)
written = st.one_of(
    values.map(json.dumps),
    literals.map(repr),
    st.lists(objects.map(json.dumps), min_size=1, max_size=4).map("\n".join),
    values.map(lambda value: f"```json\n{json.dumps(value)}\n```"),
    st.sampled_from(["datetime.date(2026, 1, 28)", "[Decimal('1e9999')]", "[datetime.time(99)]"]),
    st.integers().map(str),
    st.floats().map(str),
)
broken = damaged(written.map(lambda text: text.encode("utf-8", "surrogatepass")))
untrusted = st.one_of(written, texts, broken.map(lambda data: data.decode("utf-8", "replace")))


@given(untrusted)
@example("[" * 100_000)
@example("(" * 100_000 + ")" * 100_000)
@example("{" + "'" * 50_000 + "}")
@example("[1e999]")
@example('{"\\U"}')
@example('["\\ud800"]')
@example("[" + "9" * 5_000 + "]")
@example("{" + "9" * 5_000 + ": (1,)}")
@example("[datetime.timedelta(days=999999999999)]")
def test_any_text_is_a_value_that_can_be_sent_on(text: str) -> None:
    for value in (parse_text(text), parse_texts([text, text]), parse_document(text)):
        if not any("\ud800" <= letter <= "\udfff" for letter in text):
            assert is_sendable(value)


def is_sendable(value: Any) -> bool:
    """As `json_bytes` writes it, which takes what JSON has no word for."""
    json.dumps(value, ensure_ascii=False).encode()
    return True


blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": untrusted}),
    st.fixed_dictionaries({"type": st.sampled_from(["image", "audio"]), "data": texts, "mimeType": texts}),
    st.fixed_dictionaries({"type": st.just("resource"), "resource": objects}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": texts}, optional={"name": values}),
    values,
)
results = st.one_of(
    values,
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.one_of(st.lists(blocks, max_size=4), values),
            "structuredContent": values,
            "isError": st.one_of(st.booleans(), values),
            "resultType": values,
            "toolResult": values,
            "_meta": values,
        },
    ),
)


@given(results)
def test_any_result_is_a_reply_or_a_failure(result: Any) -> None:
    failure_of(result)
    guest_encoded.remember_raw(result)
    try:
        reply = to_reply(result)
    except ToolFailed:
        return
    json.dumps(reply.value, ensure_ascii=False)
    assert reply.encoding in ("json", "blocks")


@given(texts, st.one_of(values, st.fixed_dictionaries({"contents": st.lists(st.one_of(objects, values), max_size=3)})))
def test_any_resource_is_files_or_a_failure(uri: str, result: Any) -> None:
    try:
        reply = resource_reply(uri, result)
    except ToolFailed:
        return
    assert isinstance(reply.value, list)
