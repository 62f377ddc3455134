"""What is asked to be done and what a tool does: the verb decides between tools whose nouns are the same."""

from __future__ import annotations

import numpy as np
import pytest

from codemode_server.search.actions import agreement, kinds_of, short_agreements

TOOLS = ["key_list", "key_get", "key_create", "key_delete", "key_update", "vault"]


def agreements(want: str) -> dict[str, float]:
    kinds = kinds_of([(name, "") for name in TOOLS])
    return dict(zip(TOOLS, agreement(want, kinds).tolist(), strict=True))


@pytest.mark.parametrize(
    ("want", "best"),
    [
        ("list all keys in the vault", "key_list"),
        ("show me the keys in the vault", "key_list"),
        ("what keys are in the vault?", "key_list"),
        ("show me the details of a key", "key_get"),
        ("get the key 'main'", "key_get"),
        ("I want to add a new key", "key_create"),
        ("could you please remove the old key", "key_delete"),
        ("rename the key", "key_update"),
    ],
)
def test_the_tool_that_does_what_is_asked_agrees_most(want: str, best: str) -> None:
    found = agreements(want)
    assert max(found, key=lambda name: found[name]) == best


def test_a_request_to_read_is_not_answered_by_deleting() -> None:
    assert agreements("show the key")["key_delete"] < 0


@pytest.mark.parametrize("want", ["the key vault", "", "金庫", "12 34"])
def test_without_a_verb_nothing_is_said(want: str) -> None:
    assert set(agreements(want).values()) == {0.0}


def short(*parts: str) -> list[dict[str, float]]:
    kinds = kinds_of([(name, "") for name in TOOLS])
    return [dict(zip(TOOLS, row.tolist(), strict=True)) for row in short_agreements(parts, kinds)]


def test_a_short_query_without_a_verb_asks_for_tools_that_read_sooner_than_for_those_that_write() -> None:
    (found,) = short("key history")
    assert found["key_list"] == found["key_get"] == found["vault"] == 0
    assert found["key_create"] < 0
    assert found["key_delete"] < 0


def test_a_part_without_a_verb_has_that_of_the_part_before_it() -> None:
    delete, also = short("delete keys", "certificates")
    assert delete == also
    assert delete["key_delete"] > 0


def test_a_verb_that_is_a_noun_in_queries_says_what_a_tool_does() -> None:
    commit, log = kinds_of([("git_commit", "Records changes to the repository"), ("git_log", "Shows the commit logs")])
    assert short_agreements(["commit history"], np.array([commit, log]))[0].tolist() == [-1, 0]


def test_a_tool_whose_kind_is_not_known_is_neither_for_nor_against() -> None:
    assert agreements("delete the vault")["vault"] == 0


def test_a_tool_without_a_verb_in_its_name_is_known_by_what_its_description_begins_with() -> None:
    by_text = kinds_of([("issue", "Creates an issue"), ("create_issue", "")])
    assert by_text[0] == by_text[1]
