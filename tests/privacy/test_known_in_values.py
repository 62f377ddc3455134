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
    tokens = [
        KnownToken(f"<{kind.upper()}_{number}>", kind, value, server="crm")
        for number, (kind, value) in enumerate(values, 1)
    ]
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
    assert known((kind, original)).tokenized_result({"note": [text]}, "mail") == {"note": [shown]}


def test_keys_and_numbers_stay() -> None:
    texts = known(("name", "Ann Lee"), ("name", "Mark"), ("phone", "4930901820"))
    value = {"Ann Lee": "Ann Lee", "Mark": 2, "size": 4930901820}
    assert texts.tokenized_result(value, "mail") == {"Ann Lee": "<NAME_1>", "Mark": 2, "size": 4930901820}


def test_another_spelling_of_a_known_value_is_not_replaced_in_a_result() -> None:
    texts = known(("name", "Anna Gross"))
    assert texts.tokenized_result(["Anna Groß", "ANNA Gross"], "mail") == ["Anna Groß", "<NAME_1>"]


def test_a_result_without_known_values_is_the_same_object() -> None:
    value = {"note": ["Bob Day came", 5, None]}
    assert known(("name", "Ann Lee")).tokenized_result(value, "mail") is value


@pytest.mark.parametrize(
    ("server", "shown"), [("crm", "for <NAME_1>, in progress"), ("mail", "for Mei Petrova, in progress")]
)
def test_a_name_that_begins_with_no_given_name_counts_in_results_of_its_own_server(server: str, shown: str) -> None:
    assert known(("name", "Mei Petrova")).tokenized_result("for Mei Petrova, in progress", server) == shown


def test_ten_thousand_known_values_hardly_make_a_search_longer() -> None:
    letters = "abcdefghij"
    names = [("name", f"Ann Qu{''.join(letters[int(it)] for it in f'{number:04}')}x") for number in range(10_000)]
    many, few = known(*names), known(*names[40:45])
    value: Any = [issues(10_000), "for Ann Quaaecx, Ann Quaaec"]
    assert many.tokenized_result(value, "mail")[1] == "for <NAME_43>, Ann Quaaec"
    assert _least_seconds(many, value) < 5 * _least_seconds(few, value)


def _least_seconds(texts: KnownTexts, value: Any) -> float:
    return min(_seconds(texts, value) for _ in range(20))


def _seconds(texts: KnownTexts, value: Any) -> float:
    began = time.thread_time()
    texts.tokenized_result(value, "mail")
    return time.thread_time() - began
