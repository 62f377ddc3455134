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
        ("name", "Open", "Open", "Open"),
        ("name", "In Progress", "In Progress", "In Progress"),
        ("credential", "prod-eu-1", "prod-eu-1", "prod-eu-1"),
        ("birth_date", "1990-02-01", "released on 1990-02-01", "released on 1990-02-01"),
    ],
)
def test_a_known_name_is_replaced_where_it_stands_as_it_was(kind: str, original: str, text: str, shown: str) -> None:
    assert known((kind, original)).tokenized_result({"note": [text]}) == {"note": [shown]}


def test_keys_and_numbers_stay() -> None:
    texts = known(("name", "Ann Lee"), ("name", "Mark"), ("phone", "4930901820"))
    value = {"Ann Lee": "Ann Lee", "Mark": 2, "size": 4930901820}
    assert texts.tokenized_result(value) == {"Ann Lee": "<NAME_1>", "Mark": 2, "size": 4930901820}


def test_another_spelling_of_a_known_value_is_not_replaced_in_a_result() -> None:
    texts = known(("name", "Anna Gross"))
    assert texts.tokenized_result(["Anna Groß", "ANNA Gross"]) == ["Anna Groß", "<NAME_1>"]


def test_a_result_without_known_values_is_the_same_object() -> None:
    value = {"note": ["Bob Day came", 5, None]}
    assert known(("name", "Ann Lee")).tokenized_result(value) is value


def test_ten_kilobytes_beside_ten_thousand_known_values_take_little_time() -> None:
    """The budget is 1 ms on a quiet machine; the bound of the test is for one that is shared."""
    letters = "abcdefghij"
    texts = known(
        *(("name", f"Ann Qu{''.join(letters[int(it)] for it in f'{number:04}')}x") for number in range(10_000))
    )
    value: Any = [issues(10_000), "for Ann Quaaecx, Ann Quaaec"]
    assert texts.tokenized_result(value)[1] == "for <NAME_43>, Ann Quaaec"
    best = min(_seconds(texts, value) for _ in range(20))
    assert best < 0.004


def _seconds(texts: KnownTexts, value: Any) -> float:
    began = time.thread_time()
    texts.tokenized_result(value)
    return time.thread_time() - began
