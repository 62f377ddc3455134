"""Text from outside as it is shown: only what a reader sees, no longer than a budget; and what it costs in tokens.

Budgets are kept by an estimate; here it is held against the real vocabulary of o200k.
"""

from __future__ import annotations

import inspect
import json
import time
from pathlib import Path

import pytest

from codemode_server.config import settings
from codemode_server.support.text import clean, escaped, one_line
from codemode_server.support.tokens import estimate_tokens
from tests.vocabulary import tokens_of

README = Path(__file__).parent.parent / "README.md"
MANY = 3 * 2**20
IGNORABLE_RANGES = [
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFE00, 0xFE0F), (0xFFF0, 0xFFF8)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
]


IGNORABLE = set(
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u3164\ufeff\uffa0"
    + "".join(chr(code) for first, last in IGNORABLE_RANGES for code in range(first, last + 1))
)
"""Unicode's Default_Ignorable_Code_Point."""


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("naïve 日本 ✓ 🎉", "naïve 日本 ✓ 🎉"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b(B\x1b[mplain again\x1b7", "plain again"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;no end", ""),
        ("\x1b[38;5", "[38;5"),
        ("\x1b\x1b[0m[31mnested", "[31mnested"),
        ("bell\x07 back\x08 nul\x00 c1\x9b31m del\x7f", "bell back nul c131m del"),
        ("\u202egnp.exe\u2066\u2069", "gnp.exe"),
        ("ze\u200bro wi\u200dd\ufeffth so\xadft", "zero width soft"),
        ("tags\U000e0041\U000e007f", "tags"),
        ("half \ud83d", "half "),
        ("jo\u034fin er\ufe00\ufe0f filled\u115f\u1160\u3164\uffa0 \u17b4\u180b\U0001d173", "join er filled "),
        ("한글 ㅎ", "한글 ㅎ"),
        ("é\u200d\u200dé \u200dé é\u200d é\ufe0f\ufe0f", "éé é é é\ufe0f"),
        ("a\ufe0f 1\ufe0f a\u200cb", "a 1 ab"),
        ("a\r\nb\rc\u2028d\u2029e\x85f", "a\nb\nc\nd\ne\nf"),
    ],
)
def test_only_what_a_reader_sees_is_left(text: str, seen: str) -> None:
    assert clean(text) == seen
    assert clean(seen) == seen


def test_no_character_that_is_left_is_invisible() -> None:
    left = clean("".join(map(chr, range(0x110000))))
    left.encode()
    assert {character for character in left if ord(character) < 32 or 0x7F <= ord(character) < 0xA0} == {"\t", "\n"}
    assert not IGNORABLE & set(left)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("naïve 日本 ✓ 🎉 C:\\new", "naïve 日本 ✓ 🎉 C:\\new"),
        ("a\r\nb\tc\x0bd\x0ce\x85f\u2028g\u2029h\x1ci", r"a\r\nb\tc\x0bd\x0ce\x85f\u2028g\u2029h\x1ci"),
        ("a\u034f\ufe0f\u115f\u1160\u3164\uffa0b", r"a\u034f\ufe0f\u115f\u1160\u3164\uffa0b"),
        ("\x1b[2J\x1b]0;title\x07\x9b31m", r"\x1b[2J\x1b]0;title\x07\x9b31m"),
        ("\u202egnp.exe\u2066 \u200b\U000e0041 \ud83d", r"\u202egnp.exe\u2066 \u200b\U000e0041 \ud83d"),
    ],
)
def test_what_could_forge_a_line_or_act_on_a_terminal_is_written_as_an_escape(text: str, line: str) -> None:
    assert escaped(text) == one_line(text) == line


def test_no_character_ends_a_line_or_hides_in_an_escaped_one() -> None:
    line = escaped("".join(map(chr, range(0x110000))))
    line.encode()
    assert line.isprintable()
    assert line.splitlines() == [line]
    assert not IGNORABLE & set(line)


CODE = inspect.getsource(settings)
PROSE = "\n".join(line for line in README.read_text().split("\n") if line and line[0].isalpha())
ROWS = json.dumps([{"Order ID": f"ORD-{n:05}", "Status": "shipped", "Amount": n * 0.37} for n in range(400)])
DEFINITIONS = json.dumps(settings.json_schema())


@pytest.mark.parametrize("text", [CODE, PROSE, ROWS, DEFINITIONS], ids=["code", "prose", "rows", "schema"])
def test_the_estimate_is_within_a_tenth_of_the_real_vocabulary(text: str) -> None:
    assert estimate_tokens(text) == pytest.approx(tokens_of(text), rel=0.1)


@pytest.mark.parametrize(
    "unit", ["a", "\x1b", "\x1b[", "\x1b[0", "\x1b]", "0", "\u200b", "\r", " ", "\n", "é"], ids=lambda unit: repr(unit)
)
def test_megabytes_take_no_more_than_linear_time(unit: str) -> None:
    """Ten times the text is ten times the work, unless something is quadratic; a busy machine is slow at times only."""

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.thread_time()
        clean(text)
        estimate_tokens(text)
        return time.thread_time() - start

    assert any(seconds(MANY) < 40 * seconds(MANY // 10) + 0.1 for _ in range(5))
