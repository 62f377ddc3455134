"""Values and texts that are made to cost much: they take hardly more steps and memory than honest ones.

Work is counted in lines of Python that run. Beside each bound is a control that values
are still found.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable
from itertools import islice, product

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.originals import Originals
from codemode_server.privacy.replacing import replaced
from tests.work import lines_run

_LENGTH = 20_000
_HONEST = ("Annabelle Leary", "ann.lee@example.org", "+49 30 901820", "12 Hill Road, Springfield", "Hannibal")


def add_all(originals: Originals, values: Iterable[str]) -> None:
    for number, value in enumerate(values):
        originals.add(value, f"<VALUE_{number}>")


def knowing(values: Iterable[str]) -> Originals:
    originals = Originals()
    add_all(originals, values)
    originals.spans("so that all is imported" * 100)
    return originals


def honest_lines() -> int:
    """Those for a text that has nothing but known values."""
    text = "\n".join(_HONEST)
    originals = knowing(_HONEST)
    return lines_run(lambda: originals.spans(text * (_LENGTH // len(text))))


def signs(count: int) -> list[str]:
    """Different names with the same letters."""
    return ["Anna" + "".join(each) for each in islice(product(".-'", repeat=8), count)]


def of_two_letters(count: int, size: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices("xy", k=size)) for _ in range(count)]


class TestShortNamesWithTheSameBeginning:
    def test_cost_a_text_with_that_beginning_no_more_if_there_are_many(self) -> None:
        text = "anna!! " * (_LENGTH // 7)
        few, many = knowing(signs(10)), knowing(signs(2_000))
        assert lines_run(lambda: many.spans(text)) <= 2 * lines_run(lambda: few.spans(text))

    def test_are_added_at_the_same_cost_whatever_number_there_is(self) -> None:
        names = signs(4_000)
        few, many = Originals(), Originals()
        for name in names[:3_000]:
            many.add(name, f"<OTHER_{name}>")
        for_few = lines_run(lambda: add_all(few, names[3_000:]))
        assert lines_run(lambda: add_all(many, names[3_000:])) <= 2 * for_few

    def test_cost_little_however_many_lengths_they_have(self) -> None:
        few, many = knowing(["Anna."]), knowing("Anna" + "." * count for count in range(1, 300))
        text = "anna!! " * (_LENGTH // 7)
        assert lines_run(lambda: many.spans(text)) <= 20 * lines_run(lambda: few.spans(text))

    def test_are_all_found(self) -> None:
        names = signs(2_000)
        originals = knowing(names)
        for number, name in [*enumerate(names)][::97]:
            assert originals.spans(f"to {name}, now") == [(3, 3 + len(name), f"<VALUE_{number}>")]
        assert originals.spans("to Annabel, now") == []

    def test_are_found_by_their_beginning_if_they_have_very_many_signs(self) -> None:
        name = "-" * 40 + "Anna" + "." * 300
        ((start, end, _),) = knowing([name]).spans(name)
        assert start <= 40
        assert end >= 44
        assert knowing([name]).spans("-" * 400) == []

    def test_that_differ_in_accents_only_are_found_whatever_their_number(self) -> None:
        names = ["".join(each) for each in product("AÁÀÂÄ", "nñ", "nñ", "aáàâä")]
        originals = knowing(names)
        for name in names:
            assert [(start, end) for start, end, _ in originals.spans(f"to {name}, now")] == [(3, 7)]
        assert originals.spans("to Annabel, now") == []


_REPEATING = {
    "one name of one letter": (["X" + "x" * 40], "x" * _LENGTH),
    "names of one letter": (["X" + "x" * size for size in range(10, 40)], "x" * _LENGTH),
    "names that alternate": (["X" + "yx" * size for size in range(5, 60)], "xy" * (_LENGTH // 2)),
    "names that alternate, between spaces": (["X" + "yx" * size for size in range(5, 60)], "x y " * (_LENGTH // 4)),
    "a name within words": (["Vbcdef"], "xvbcdef " * (_LENGTH // 8)),
    "names of two letters": (of_two_letters(500, 20), of_two_letters(1, _LENGTH)[0]),
    "names of two letters, between spaces": (of_two_letters(500, 20), " ".join(of_two_letters(1, _LENGTH // 2)[0])),
    "double names of two letters": (
        [f"{one} {one[::-1]}" for one in of_two_letters(500, 30)],
        of_two_letters(1, _LENGTH)[0],
    ),
    "addresses of one letter": (["a" * 64 + f"@e{number}.example.org" for number in range(8)], "a" * _LENGTH),
    "long numbers": (["Street " + "12" * 100, *(f"+{'12' * 5}{number}" for number in range(100, 200))], "12" * 10_000),
}


@pytest.mark.parametrize("case", _REPEATING)
def test_values_and_texts_that_repeat_themselves_cost_at_most_four_times_a_text_of_known_values(case: str) -> None:
    names, text = _REPEATING[case]
    originals = knowing(names)
    assert lines_run(lambda: originals.spans(text)) <= 4 * honest_lines()


@pytest.mark.parametrize("case", _REPEATING)
def test_values_that_repeat_themselves_are_found(case: str) -> None:
    for number, name in [*enumerate(names := _REPEATING[case][0])][:: len(names) // 8 + 1]:
        for written in (name, name.upper(), name[::-1].rstrip("+"), "-".join(name.lstrip("+"))):
            assert any(
                start <= 4 and end >= 4 + len(written) for start, end, _ in knowing(names).spans(f"It: {written} and")
            ), (number, written)


def test_a_value_in_a_text_that_costs_much_is_found() -> None:
    """What is left over when a search has taken its steps is replaced if it may be a value."""
    names, text = _REPEATING["double names of two letters"]
    originals = knowing([*names, "ann.lee@example.org", "Grace Mark Hunter", "Hannibal", "12 B"])
    ordinary = "The lamp in the hall does not go out.\n" * 100
    for value in (names[250], "ann.lee@example.org", "Grace Mark Hunter", "retnuHkraMecarG", "Hannibal", "12 B"):
        spans = originals.spans(f"{text} {ordinary}{value} {ordinary}{text}")
        start = len(text) + 1 + len(ordinary)
        assert any(first <= start and last >= start + len(value) for first, last, _ in spans), value
        assert not any(first < start - 500 < last or first < start + 500 < last for first, last, _ in spans)


def test_an_ordinary_text_beside_values_that_cost_much_stays_as_it_is() -> None:
    names, _ = _REPEATING["names of two letters"]
    originals = knowing([*names, "ann.lee@example.org"])
    line = "The lamp in the hall does not go out after the button is pressed.\n"
    assert originals.spans(line * 1_000) == []


def word(chance: random.Random, size: int) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=size))


def bytes_of(values: list[str]) -> int:
    """Memory that it takes to know these values."""
    originals = knowing(["Annabelle Leary"])
    tracemalloc.start()
    try:
        add_all(originals, (f"{value} " for value in values))
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


_CHANCE = random.Random(5)
_NAME = " ".join(word(_CHANCE, 39).capitalize() for _ in range(6))
_KEY = "k7" + "".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4_000))


class TestALongValue:
    """Of a value of very many letters and digits, only some windows are known, at equal distances."""

    @pytest.mark.parametrize(("count", "size", "factor"), [(6, 39, 2), (40, 100, 8)])
    def test_takes_little_more_memory_than_a_shorter_one(self, count: int, size: int, factor: int) -> None:
        chance = random.Random(3)
        short = [" ".join(word(chance, 30) for _ in range(2)) for _ in range(300)]
        long = [" ".join(word(chance, size) for _ in range(count)) for _ in range(300)]
        assert bytes_of(long) <= factor * bytes_of(short)

    @pytest.mark.parametrize("value", [_NAME, _KEY])
    @pytest.mark.parametrize("beside", ["", " and nobody else" * 20])
    def test_is_found_as_a_whole(self, value: str, beside: str) -> None:
        originals = knowing([value])
        for written in (value, value.upper(), value[::-1], "-".join(value)):
            assert originals.spans(f"It is {written}{beside}") == [(6, 6 + len(written), "<VALUE_0>")]

    @pytest.mark.parametrize("beside", ["", " and nobody else" * 20])
    def test_is_found_by_parts_that_are_long_too(self, beside: str) -> None:
        originals = knowing([_NAME, _KEY])
        for value, size in ((_NAME, 12), (_KEY, 80)):
            for start in range(0, len(value) - size, 7):
                part = value[start : start + size].strip()
                spans = originals.spans(f"It is x{part}{beside}")
                assert [(begin <= 7, end >= 7 + len(part)) for begin, end, _ in spans] == [(True, True)], start

    def test_does_not_make_ordinary_texts_slow(self) -> None:
        text = "The lamp in the hall does not go out after the button is pressed. " * 100
        known, none = knowing([_NAME, _KEY]), knowing(["Annabelle Leary"])
        assert lines_run(lambda: known.spans(text)) <= 2 * lines_run(lambda: none.spans(text))


class CountedKeys(dict[str, int]):
    """An object that counts how often a key is looked for."""

    lookups = 0

    def __contains__(self, key: object) -> bool:
        self.lookups += 1
        return super().__contains__(key)


def test_keys_that_are_one_person_are_numbered_with_few_lookups_for_each() -> None:
    spellings = map("".join, product(*((letter, letter.upper()) for letter in "annabelle")))
    value = CountedKeys((f"{spelling}@example.org", 1) for spelling in spellings)
    found = Detector().in_value({**value}).found
    shown = replaced(value, found, {(one.kind, one.value): "<EMAIL_1>" for one in found})
    assert value.lookups <= 4 * len(value)
    assert [*shown] == ["<EMAIL_1>", *(f"<EMAIL_1> ({number})" for number in range(2, len(value) + 1))]
