"""Known originals are found where they stand, and ordinary words are left alone."""

from __future__ import annotations

from itertools import permutations

import pytest

from codemode_server.privacy.originals import Originals

EMAIL, NAME, STREET = "<EMAIL_1>", "<NAME_1>", "<ADDRESS_1>"


def found(text: str) -> list[tuple[str, str]]:
    """What is found, with its token."""
    originals = Originals()
    originals.add("Ann.Lee@example.org", EMAIL)
    originals.add("Mark", NAME)
    originals.add("Straße 12", STREET)
    return [(text[start:end], token) for start, end, token in originals.spans(text)]


class TestAnOriginalWithDigitsOrSigns:
    @pytest.mark.parametrize("text", ["Ann.Lee@example.org", "ann.lee@EXAMPLE.org", "ANN.LEE@EXAMPLE.ORG"])
    def test_is_found_in_capital_and_small_letters(self, text: str) -> None:
        assert found(f"to {text}.") == [(text, EMAIL)]

    def test_is_found_within_a_word(self) -> None:
        assert found("xann.lee@example.orgx") == [("ann.lee@example.org", EMAIL)]

    def test_is_found_after_a_letter_that_is_two_in_small_letters(self) -> None:
        assert found("\u0130\u0130 ANN.LEE@EXAMPLE.ORG") == [("ANN.LEE@EXAMPLE.ORG", EMAIL)]
        assert found("STRAẞE 12") == [("STRAẞE 12", STREET)]

    def test_is_not_found_once_it_is_forgotten(self) -> None:
        originals = Originals()
        originals.add("ann@example.org", EMAIL)
        assert originals.spans("ann@example.org")
        originals.discard(EMAIL)
        assert not originals.spans("ann@example.org")


class TestAName:
    @pytest.mark.parametrize(
        "text", ["Mark", "Dear Mark,", '{"name":"Mark"}', "Mark_2", "Mark's", r'"a\nMark"', r"a%20Mark", r"\u0020Mark"]
    )
    def test_is_found_where_it_stands_alone(self, text: str) -> None:
        assert found(text) == [("Mark", NAME)]

    def test_of_several_words_is_found_within_a_word(self) -> None:
        originals = Originals()
        originals.add("Ann Lee", NAME)
        assert originals.spans("MsAnn Lees") == [(2, 9, NAME)]

    @pytest.mark.parametrize("text", ["Markdown", "a bookMark", "mark it as read", "Mark2", "äMark", r"\u00e4Mark"])
    def test_is_not_found_in_other_words(self, text: str) -> None:
        assert found(text) == []


def test_overlapping_originals_are_one_span() -> None:
    originals = Originals()
    originals.add("12 Hill Road", "<ADDRESS_1>")
    originals.add("Road 7", "<ADDRESS_2>")
    assert originals.spans("at 12 Hill Road 7.") == [(3, 17, "<ADDRESS_1>")]


class TestALongerNameAroundAKnownOne:
    """A form is found by one of its windows, and the longer of two such names by one within the shorter one."""

    NAMES = ("Grace Mark", "Grace Mark Young", "Old Grace Mark Young")

    @pytest.mark.parametrize("names", [*permutations(NAMES)])
    @pytest.mark.parametrize("beside", ["", " and nobody else" * 20])
    def test_is_found_whichever_was_known_first(self, names: tuple[str, ...], beside: str) -> None:
        originals = Originals()
        for name in names:
            originals.add(name, f"<{name}>")
        for name in names:
            for written in (name, name.upper(), name.replace(" ", ""), name[::-1]):
                text = f"It is {written}{beside}"
                assert originals.spans(text) == [(6, 6 + len(written), f"<{name}>")]

    def test_of_digits_is_found_too(self) -> None:
        originals = Originals()
        originals.add("118 905", "<PHONE_1>")
        originals.add("118 905 033 198", "<PHONE_2>")
        assert originals.spans("call 118 905 033 198 now") == [(5, 20, "<PHONE_2>")]
        assert originals.spans("call 118 905 now") == [(5, 12, "<PHONE_1>")], "the control"

    @pytest.mark.timeout(20)
    def test_in_a_text_that_repeats_itself_takes_no_long_time(self) -> None:
        originals = Originals()
        for number in range(40, 70):
            originals.add(("z7" * number)[:number], f"<KEY_{number}>")
        (start, _, token), *rest = originals.spans("z7" * 100_000)
        assert (start, token) == (0, "<KEY_69>")
        assert rest[-1][1] > 200_000 - 40, "the rest is shorter than each of them"


class TestWholesAndParts:
    """A part of a value is no token: a tool that gets the text again would receive the whole value there."""

    def test_a_part_is_marked_as_one(self) -> None:
        assert spans({"<EMAIL_1>": "maria.moreau20@mail.example"}, "Jean-Luc Moreau20.") == [
            (9, 17, "<part of EMAIL_1>")
        ]

    def test_what_a_part_has_beside_a_whole_original_stays_if_it_is_short(self) -> None:
        originals = {"<NAME_1>": "Mei Petrova", "<EMAIL_1>": "mei.petrova53@mail.example"}
        assert spans(originals, "Mei Petrova\n53 pro") == [(0, 11, "<NAME_1>")]
        assert spans(originals, "mei.petrova53") == [(0, 11, "<NAME_1>")]
        assert spans(originals, "mei.petrova53@mail.example") == [(0, 26, "<EMAIL_1>")], "the control"

    def test_what_is_long_beside_it_is_a_part(self) -> None:
        originals = {"<NAME_1>": "Mei Petrova", "<EMAIL_1>": "mei.petrova-brontok@mail.example"}
        assert spans(originals, "Mei Petrova-Brontok") == [(0, 11, "<NAME_1>"), (11, 19, "<part of EMAIL_1>")]


def spans(originals: dict[str, str], text: str) -> list[tuple[int, int, str]]:
    known = Originals()
    for token, original in originals.items():
        known.add(original, token)
    return known.spans(text)
