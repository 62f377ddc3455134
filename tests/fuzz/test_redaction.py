"""What leaves the product: no secret of the configuration, no value in a shape, nothing that a reader can't see."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from codemode_server.catalog.observed import shape_of
from codemode_server.catalog.shapes import to_json
from codemode_server.support.redaction import MAX_PAYLOAD_BYTES, Redactor, payload, shape
from codemode_server.support.text import clean, clean_in_json, clean_line, escaped, escaped_lines, one_line
from tests.fuzz.strategies import containers, every, is_whole, names, scalars, texts, values

letters = st.text(st.sampled_from("abXY09-_/+=.\"'\\éß漢 \n😀"), min_size=8, max_size=14)
likely = letters.filter(lambda it: it == it.strip() and len(set(it)) > 3)
secrets = st.lists(likely, min_size=1, max_size=3, unique=True)
spellings = st.sampled_from(
    [
        lambda it: it,
        lambda it: json.dumps(it)[1:-1],
        lambda it: json.dumps(it, ensure_ascii=False)[1:-1],
    ]
)


@st.composite
def said(draw: st.DrawFn, known: list[str]) -> str:
    """A text that has secrets in it, in the spellings that JSON gives them."""
    parts = draw(st.lists(st.one_of(texts, st.sampled_from(known)), max_size=5))
    return "".join(draw(spellings)(part) if part in known else part for part in parts)


def spelt(known: list[str]) -> set[str]:
    plain = (json.dumps(it, ensure_ascii=False)[1:-1] for it in known)
    return {*known, *plain, *(json.dumps(it)[1:-1] for it in known)}


@given(secrets, st.data())
def test_no_value_has_a_secret_left_in_keys_or_strings(known: list[str], data: Any) -> None:
    text = said(known)
    leaves = st.one_of(scalars, text)
    value = data.draw(
        st.recursive(leaves, lambda it: st.one_of(containers(it), st.dictionaries(text, it, max_size=3)), max_leaves=10)
    )
    masked = Redactor(known).value(value)

    def check(inner: Any) -> None:
        assert not isinstance(inner, str) or not any(it in inner for it in spelt(known))

    every(masked, check)


@given(secrets, st.data(), st.sampled_from(["all", "shapes"]))
def test_no_record_has_a_secret_or_more_than_it_may(known: list[str], data: Any, keep: Any) -> None:
    value = data.draw(st.recursive(st.one_of(scalars, said(known)), containers, max_leaves=10))
    assume(is_whole(value))
    kept = payload(value, keep, Redactor(known)) or ""
    assert len(kept.encode("utf-8", "replace")) <= MAX_PAYLOAD_BYTES
    assert not any(it in kept for it in known if it.isprintable())


@given(texts)
@example("\x1b\x00[31m")
@example("\x1b]0;" + "a" * 5_000)
def test_cleaned_text_is_clean(text: str) -> None:
    for cleaned in (clean(text), clean_in_json(text)):
        assert "\x1b" not in cleaned
        assert not any("\u202a" <= letter <= "\u202e" or "\ud800" <= letter <= "\udfff" for letter in cleaned)
        cleaned.encode()
    assert clean(clean(text)) == clean(text)


@given(texts, st.integers(1, 60))
def test_a_line_is_one_line_and_within_its_limit(text: str, limit: int) -> None:
    for line in (clean_line(text, limit), one_line(text, limit)):
        assert len(line) <= limit
        assert len(line.splitlines()) <= 1
    assert escaped(text).isprintable()
    assert one_line(text, limit).isprintable()
    assert all(line.isprintable() for line in escaped_lines(text).split("\n"))


keys = st.one_of(st.sampled_from(["id", "name", "Order ID", "alice@example.com", "2026-01-28", "x" * 60]), names)
rows = st.lists(st.dictionaries(keys, st.one_of(scalars, values), max_size=5), max_size=6)
results = st.one_of(values, rows, st.dictionaries(keys, rows, max_size=3))


@given(results)
@example([{"a": "Alice lives at 12 Long Road, Springfield", "b": ["4111 1111 1111 1111 is her number"]}])
def test_a_shape_holds_no_value(value: Any) -> None:
    kept = json.dumps([to_json(shape_of(value)), shape(value)], ensure_ascii=False)
    found: list[Any] = []
    every(value, found.append)
    keys = {key for inner in found if isinstance(inner, dict) for key in inner}
    assert not any(it in kept for it in found if isinstance(it, str) and len(it) > 20 and it not in keys)
