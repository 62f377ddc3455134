"""Texts that are made to cost much: a search for personal data takes hardly more work for them than for others.

Beside each bound is a control that what is personal is still found.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from codemode_server.privacy.detector import Detector
from tests.work import lines_run, seconds_of

_LENGTH = 100_000
_DETECTOR = Detector()
_DETECTOR.in_text("call +49 30 901820, DE89370400440532013000, mail ann@example.org")  # imports what these need
_ORDINARY = "The lamp in the hall (number 12) does not go out after the button is pressed: see the log of 2026-03-12. "
_NOTHING_IN_IT = [
    *("@", "a@", "a.@a.", "a@b.co.", "ab=c@", "@a.b.c.d.e.f.", "a@b.c-" + "-" * 60, "://", "a://b:c", "+49 30 "),
    *("DE89", "DE89 ", "1 ", "12 ", "1-", "(1) "),
]
"""What begins like something personal, again and again."""


def found(value: object) -> list[tuple[str, str]]:
    return [(one.kind, one.value) for one in _DETECTOR.in_value(value).found]


@pytest.mark.parametrize("text", _NOTHING_IN_IT)
def test_a_text_of_mere_beginnings_takes_about_as_long_as_an_ordinary_one(text: str) -> None:
    """Up to ten times, by measurement, of an ordinary text that takes 6 ms; it was up to a hundred times."""
    ordinary = _ORDINARY * (_LENGTH // len(_ORDINARY))
    made = text * (_LENGTH // len(text))
    assert seconds_of(lambda: _DETECTOR.in_text(made)) <= 16 * seconds_of(lambda: _DETECTOR.in_text(ordinary))


@pytest.mark.parametrize("text", _NOTHING_IN_IT)
def test_what_is_personal_is_found_within_mere_beginnings(text: str) -> None:
    beside = text * 200
    for kind, value in (
        ("email", "ann.lee@example.org"),
        ("phone", "+49 30 901820"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("credential", "tiger77"),
    ):
        written = f"https://ann:{value}@localhost" if kind == "credential" else value
        assert (kind, value) in found(f"{beside}\n{written}\n{beside}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("?email=ann@example.org", "ann@example.org"),
        ("a@b@ann@example.org", "ann@example.org"),
        ("x" * 80 + ".ann@example.org", None),
        ("ann@" + "a." * 110 + "org", "ann@" + "a." * 110 + "org"),
        ("=ann@example.org", "ann@example.org"),
        ("é.ann@exämple.org", "é.ann@exämple.org"),
    ],
)
def test_an_address_begins_where_the_characters_before_the_at_do(text: str, address: str | None) -> None:
    expected = address or text[-(64 + len("@example.org")) :]
    assert found(text) == [("email", expected)]


class TestManyDifferentNumbers:
    """Whether a number is one of a phone is looked up for some thousands of a search, and after that assumed."""

    @staticmethod
    def numbers(count: int, make: Callable[[str], str]) -> list[str]:
        chance = random.Random(count)
        return [make("".join(chance.choices("0123456789", k=9))) for _ in range(count)]

    @pytest.mark.parametrize(
        "make", ["+{}".format, "tel {}".format, lambda digits: f"0{digits[:2]}-{digits[2:]}"], ids=["plus", "word", "0"]
    )
    def test_cost_less_each_the_more_there_are(self, make: Callable[[str], str]) -> None:
        few, many = (",\n".join(self.numbers(count, make)) for count in (1_000, 8_000))
        assert lines_run(lambda: _DETECTOR.in_text(many)) <= 4 * lines_run(lambda: _DETECTOR.in_text(few))

    def test_are_all_found(self) -> None:
        numbers = [f"+49 30 90{number}" for number in range(1_000, 4_000)]
        assert found({"a": "\n".join(numbers)}) == [("phone", number) for number in numbers]
        assert found([{"phone": number.removeprefix("+49 ")} for number in numbers])

    def test_that_are_counted_stay_as_they_are(self) -> None:
        numbers = self.numbers(8_000, "order {}".format)
        assert found(numbers) == []

    def test_are_looked_up_while_they_are_few(self) -> None:
        assert found("+999 12 345678") == []
        assert found("+49 30 901820") == [("phone", "+49 30 901820")]
