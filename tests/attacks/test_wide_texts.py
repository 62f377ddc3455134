"""One emoji makes a long text take four bytes a character, so at most one copy of it may be there at a time; a text of
nothing but a secret makes no list of millions of places.

Memory is that of Python's own allocations, in what every message of a guest or an upstream passes through.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from codemode_server.json_values import replace_lone_surrogates
from codemode_server.redaction import Redactor
from codemode_server.sandbox import frames
from codemode_server.upstreams._messages import parse_line

pytestmark = pytest.mark.slow

MIB = 2**20
LENGTH = 8 * MIB
SECRET = "tok_9f8e7d6c5b4a"
TAILS = {"ascii": b"", "an emoji": "😀".encode(), "half a character": b'\\ud83d\\ude00\\"\\ud800'}


def peak_of(work: Callable[[], object]) -> int:
    """How much memory was in use at most, beyond that before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tail", TAILS)
def test_a_call_with_a_wide_text_is_parsed_without_a_second_copy(tail: str) -> None:
    head = b'{"op":"call","id":1,"server":"s","tool":"t","arguments":{"x":"'
    data = head + b"x" * LENGTH + TAILS[tail] + b'"}}'
    peak = peak_of(lambda: frames.parse(data))
    assert peak >= LENGTH, "control: what is held is seen"
    assert peak < (2 if tail == "ascii" else 7) * LENGTH


@pytest.mark.parametrize("tail", TAILS)
def test_a_result_with_a_wide_text_is_parsed_without_a_second_copy(tail: str) -> None:
    head = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"'
    line = bytearray(head + b"x" * LENGTH + TAILS[tail] + b'"}]}}')
    peak = peak_of(lambda: parse_line(line))
    assert peak >= LENGTH, "control: what is held is seen"
    assert peak < (2 if tail == "ascii" else 7) * LENGTH


def test_a_text_made_of_a_secret_is_masked_whole_and_one_with_some_of_them_in_its_places() -> None:
    redactor = Redactor([SECRET])
    assert redactor.text(f"{SECRET} and " * 1_000) == "*** and " * 1_000
    text = SECRET * (LENGTH // len(SECRET))
    shown: list[str] = []
    assert peak_of(lambda: shown.append(redactor.text(text))) < 32 * MIB
    assert shown == ["***"]


def test_masking_looks_into_every_part_of_a_value_however_many_there_are() -> None:
    value = {"rows": [{"id": n, "text": "plain"} for n in range(50_000)]}
    redactor = Redactor([SECRET, "12345678"])
    assert redactor.value(value) is value
    assert redactor.value({**value, "last": [f"a {SECRET}"]}) == {**value, "last": ["a ***"]}
    assert redactor.value({**value, f"key {SECRET}": None, "n": 12345678}) == {**value, "key ***": None, "n": "***"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"a\ud800b"', "a?b"),
        (r'"\uD83D\uDE00"', "😀"),
        (r'"\ud83d\ud83d\ude00\ude00"', "?😀?"),
        (r'"\\ud800\\\ud800"', "\\ud800\\?"),
        (r'"\"\udfff\n\u00e9"', '"?\né'),
    ],
)
def test_only_halves_of_characters_are_replaced(written: str, read: str) -> None:
    data = bytearray(written.encode())
    replace_lone_surrogates(data, "?")
    assert json.loads(data) == read
