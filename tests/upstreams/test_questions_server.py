"""The fields of a form: which answers are valid."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.upstreams.questions_server import QuestionField


@pytest.mark.parametrize(
    ("format_", "valid", "invalid"),
    [
        ("email", ["ada@example.com"], ["ada", "@ada", "a da@example.com"]),
        ("uri", ["https://example.com/a?b", "mailto:ada@example.com"], ["example", "https://", "http://[", "a b:c d"]),
        ("date", ["2026-01-31"], ["not a date", "2026-02-30", "20260131", "2026-01-31T09:30:00Z"]),
        ("date-time", ["2026-01-31T09:30:00Z", "2026-01-31T09:30:00.5+02:00"], ["2026-01-31", "2026-01-31T25:00:00Z"]),
    ],
)
def test_a_text_must_have_the_format_of_its_field(format_: Any, valid: list[str], invalid: list[str]) -> None:
    field = QuestionField(name="value", format=format_)
    assert [text for text in valid if field.problem(text)] == []
    assert [text for text in invalid if not field.problem(text)] == []


def test_the_format_of_a_field_that_is_no_text_means_nothing() -> None:
    assert QuestionField(name="value", type="integer", format="date").problem(3) == ""
