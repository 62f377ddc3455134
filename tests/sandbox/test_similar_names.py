"""A name is suggested only where the wrong one plainly stands for it: following a wrong suggestion costs a run."""

from __future__ import annotations

import pytest

from codemode_server.sandbox.guest.similar_names import similar_name
from tests.tables import rows, tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("wrong", "known", "meant"), rows(TABLES["meant"]))
def test_a_name_with_the_same_words_is_suggested(wrong: str, known: list[str], meant: str) -> None:
    assert similar_name(wrong, known) == meant


@pytest.mark.parametrize(("wrong", "known"), rows(TABLES["none"]))
def test_similar_letters_or_two_that_may_be_meant_are_no_reason_to_suggest_one(wrong: str, known: list[str]) -> None:
    assert similar_name(wrong, known) is None


def test_of_several_the_one_that_is_required_and_not_given_is_suggested() -> None:
    known = ["file_name", "file_mode", "folder"]
    assert similar_name("file", known) is None
    assert similar_name("file", known, preferred=["file_name"]) == "file_name"
    assert similar_name("id", ["repository_id", "page"], preferred=["repository_id"]) == "repository_id"
