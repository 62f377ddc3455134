"""Names in free text: which texts a recognizer gets, in which pieces, and which of its answers count.

The recognizer is a fake that finds the names it is given; `test_name_models.py` has the real ones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.name_recognizer import (
    MAX_CHARACTERS,
    MAX_PIECE_CHARACTERS,
    NameRecognizer,
    Span,
    free_pieces,
)
from codemode_server.features.privacy.settings import DetectionFields
from codemode_server.features.privacy.walk import searched_value


class Knows(NameRecognizer):
    """A recognizer that finds these names, and remembers what it was given."""

    def __init__(self, *names: str) -> None:
        super().__init__(())
        self._names = names
        self.read: list[str] = []

    async def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        self.read += texts
        return [
            [found.span() for name in self._names for found in re.finditer(re.escape(name), text)] for text in texts
        ]


async def names(recognizer: Knows, value: object, settings: DetectionFields | None = None) -> list[str]:
    return [it.value for it in (await Detector(settings, recognizer).find(value)).found if it.kind == "name"]


async def test_a_name_is_found_in_a_sentence_with_its_place_and_confidence() -> None:
    value = {"notes": ["", "Please call Ann Lee today"]}
    (found,) = (await Detector(None, Knows("Ann Lee")).find(value)).found
    assert (found.kind, found.value, found.confidence) == ("name", "Ann Lee", 0.85)
    assert (found.place, found.start, found.end) == (("notes", 1), 12, 19)
    assert (await Detector().find(value)).found == (), "without a recognizer it is not"


async def test_keys_numbers_and_single_words_are_no_free_text() -> None:
    recognizer = Knows()
    await names(recognizer, {"Ann Lee": "Ann", "count": 1234567, "text": "Ann came", "empty": " "})
    assert recognizer.read == ["Ann came"]


@pytest.mark.parametrize(
    ("text", "found"), [("Ann Lee", ["Ann Lee"]), ("Desk Lamp", []), ("a Desk Lamp", ["Desk Lamp"])]
)
async def test_a_text_that_is_nothing_but_a_name_has_to_begin_with_a_given_name(text: str, found: list[str]) -> None:
    assert await names(Knows("Ann Lee", "Desk Lamp"), [text]) == found


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ("see Ann Lee's file", "Ann Lee's", ["Ann Lee"]),
        ("see Peter O’Neil’s file", "Peter O’Neil’s", ["Peter O’Neil"]),
        ("see Ann\nLee, please", "Ann\nLee,", ["Ann\nLee"]),
        ("see Ann-Marie J. Lee.", "Ann-Marie J. Lee.", ["Ann-Marie J. Lee"]),
        ("see <NAME_1> now", "NAME_1", []),
        ("see <NAME_1> Lee now", "NAME_1> Lee", ["Lee"]),
        ("see user_ann now", "user_ann", []),
        ("see ann@host now", "ann@host", []),
        ("see J 12 now", "J 12", []),
    ],
)
async def test_what_counts_are_words_of_letters_outside_tokens_and_identifiers(
    text: str, said: str, found: list[str]
) -> None:
    assert await names(Knows(said), [text]) == found


def pieces(text: str) -> list[str]:
    found = free_pieces(searched_value([text]))
    assert found is not None
    return [it.text for it in found]


@pytest.mark.parametrize("end", ["\n\n", "\n", ". ", " "])
def test_a_long_text_is_read_in_pieces_that_end_with_a_paragraph_a_line_a_sentence_or_a_word(end: str) -> None:
    text = f"{'word' + end}" * 2_000
    read = pieces(text)
    assert "".join(read) == text
    assert max(map(len, read)) <= MAX_PIECE_CHARACTERS
    assert {piece[-len(end) :] for piece in read} == {end}


async def test_a_value_with_too_much_free_text_is_not_searched_and_says_so() -> None:
    recognizer = Knows()
    line = "Ann Lee came. " * 100
    found = await Detector(None, recognizer).find([line] * (MAX_CHARACTERS // len(line) + 1))
    assert (found.is_complete, recognizer.read) == (False, [])
    assert (await Detector(None, recognizer).find([line] * (MAX_CHARACTERS // len(line)))).is_complete, "the control"


def test_cutting_takes_time_linear_in_hostile_text() -> None:
    for text in ("a" * 999_990 + " b", " \n" * 499_990 + "a b", "a\n \n" * 249_990, ". " * 499_990):
        began = time.thread_time()
        free_pieces(searched_value([text]))
        assert time.thread_time() - began < 2, text[:10]
