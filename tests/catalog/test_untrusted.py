"""Upstream text as prose, docstrings and literals: readable, bounded, and never anything but text."""

from __future__ import annotations

import ast

import pytest

from codemode_server.catalog.summaries import first_sentence
from codemode_server.catalog.untrusted import literal, one_line
from codemode_server.support.text import clean

HOSTILE = [
    'ends with a quote"',
    'three """ of them',
    '""""""',
    "ends with a backslash\\",
    '\\"""',
    "\\N{DIGIT ONE} \\x41 \\u0041",
    '"""\nimport os\nos.system("true")\n"""',
    "tab\tand {braces} and %s",
    "'",
]


@pytest.mark.parametrize(
    "value",
    [
        *HOSTILE,
        "\x1b[31m",
        "\u202egnp.exe",
        "\ud800",
        "\\\u3164\ufe0f",
        "a\x00b",
        "\u2028",
        'a"b',
        "a'b\"c",
        1,
        -1.5,
        True,
        None,
    ],
)
def test_a_literal_is_the_value_again_on_one_line_of_visible_characters(value: str | float | None) -> None:
    text = literal(value)
    assert ast.literal_eval(text) == value
    assert text.isprintable()
    assert text == clean(text)


def test_what_a_reader_does_not_see_is_taken_out_of_prose() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link \u202edesrever\u202c ze\u200bro "
    text += "\U000e0041\U000e0042tags\x00\x08\ufeff\ud83d"
    assert one_line(text, 100) == "red link desrever zero tags"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Lists what is in\nthe folder", "Lists what is in the folder"),
        ("Finds files, e.g. images, in a folder. More.", "Finds files, e.g. images, in a folder."),
        ("\n\n  Title\n\nBody", "Title"),
        ("word " * 40, ("word " * 24).strip() + "…"),
        ("", ""),
    ],
)
def test_the_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
