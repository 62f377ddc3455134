"""A word that no tool has → what may be meant, and nothing where nothing may."""

from __future__ import annotations

import pytest

from codemode_server.search.spelling import Spelling

SPELLING = Spelling(["creat", "issu", "messag", "repositori", "calendar", "file", "fil", "chart", "screenshot", "pull"])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mesag", {"messag"}),
        ("calender", {"calendar"}),
        ("chrat", {"chart"}),
        ("screnshot", {"screenshot"}),
        ("repostori", {"repositori"}),
        ("creatissu", {"creat", "issu"}),
    ],
)
def test_a_word_that_is_nearly_there(word: str, meant: set[str]) -> None:
    assert set(SPELLING.suggestions(word)) == meant


@pytest.mark.parametrize("word", ["berlin", "pul", "x", "", "12345", "id7f3a", "消息消息", "zzzzzzzz", "a" * 1_000])
def test_a_word_that_is_something_else(word: str) -> None:
    assert SPELLING.suggestions(word) == {}


def test_what_is_meant_counts_less_than_what_is_said() -> None:
    assert all(weight < 1 for weight in SPELLING.suggestions("mesag").values())


def test_where_no_tool_has_any_word_nothing_is_meant() -> None:
    assert Spelling([]).suggestions("message") == {}
