"""The fields of a form: which answers are valid."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.upstreams.questions_server import QuestionField


@pytest.mark.parametrize(
    ("format_", "valid", "invalid"),
    [
        ("email", ["ada@example.com"], ["ada"]),
        ("date", ["2026-01-31"], ["not a date", "2026-02-30", "2026-01-31T09:30:00Z"]),
    ],
)
def test_a_text_must_have_the_format_of_its_field(format_: Any, valid: list[str], invalid: list[str]) -> None:
    field = QuestionField(name="value", format=format_)
    assert [text for text in valid if field.problem(text)] == []
    assert [text for text in invalid if not field.problem(text)] == []


def test_the_format_of_a_field_that_is_no_text_means_nothing() -> None:
    assert QuestionField(name="value", type="integer", format="date").problem(3) == ""
