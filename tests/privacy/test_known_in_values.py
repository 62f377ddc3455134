"""Known values in the results of tools: which become tokens before a program sees them, and which stay."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.privacy.costs import issues
from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.privacy.token_map import KnownTexts


def known(*values: tuple[str, str]) -> KnownTexts:
    texts = KnownTexts()
    tokens = [KnownToken(f"<{kind.upper()}_{number}>", kind, value) for number, (kind, value) in enumerate(values, 1)]
    texts.take(TokenChanges(tokens, 1))
    return texts


@pytest.mark.parametrize(
    ("kind", "original", "text", "shown"),
    [
        ("name", "Ann Lee", "the offer for Ann Lee, by mail", "the offer for <NAME_1>, by mail"),
        ("name", "Ann Lee", "ANN  LEE", "<NAME_1>"),
        ("name", "Ann Lee", "Joann Leeds and Ann Lees", "Joann Leeds and Ann Lees"),
        ("name", "Ann Lee", "eeL nnA, A-n-n L-e-e", "eeL nnA, A-n-n L-e-e"),
        ("name", "Mark", "Mark", "<NAME_1>"),
        ("name", "Mark", "Mark this as done", "Mark this as done"),
        ("name", "Mark", "mark", "mark"),
        ("address", "12 Old Mill Road", "at 12 old mill road.", "at <ADDRESS_1>."),
        ("credential", "tr0ub4dor&3", "use tr0ub4dor&3 there", "use <CREDENTIAL_1> there"),
        ("credential", "tr0ub4dor&3", "use TR0UB4DOR&3 there", "use TR0UB4DOR&3 there"),
        ("birth_date", "1990-02-01", "released on 1990-02-01", "released on 1990-02-01"),
        ("employee", "EMP-123456", "by EMP-123456", "by <EMPLOYEE_1>"),
    ],
)
def test_a_known_value_is_replaced_where_it_stands_as_it_was(kind: str, original: str, text: str, shown: str) -> None:
    assert known((kind, original)).tokenized_result({"note": [text]}) == {"note": [shown]}


def test_keys_are_replaced_too_but_for_single_words_and_numbers_stay() -> None:
    texts = known(("name", "Ann Lee"), ("name", "Mark"), ("phone", "4930901820"))
    value = {"Ann Lee": 1, "Mark": 2, "size": 4930901820, "call": "4930901820"}
    assert texts.tokenized_result(value) == {"<NAME_1>": 1, "Mark": 2, "size": 4930901820, "call": "<PHONE_3>"}


def test_a_result_without_known_values_is_the_same_object() -> None:
    value = {"note": ["Bob Day came", 5, None]}
    assert known(("name", "Ann Lee")).tokenized_result(value) is value


def test_ten_kilobytes_beside_ten_thousand_known_values_take_little_time() -> None:
    """The budget is 1 ms on a quiet machine; the bound of the test is for one that is shared."""
    texts = known(*(("name", f"Zorb{number:05} Quux{number * 7:06}") for number in range(10_000)))
    value: Any = [issues(10_000), "for Zorb00042 Quux000294"]
    assert texts.tokenized_result(value)[1] == "for <NAME_43>"
    best = min(_seconds(texts, value) for _ in range(20))
    assert best < 0.004


def _seconds(texts: KnownTexts, value: Any) -> float:
    began = time.thread_time()
    texts.tokenized_result(value)
    return time.thread_time() - began
