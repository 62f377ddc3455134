"""Which values that a call has sent are found in its answer."""

from __future__ import annotations

import pytest

from codemode_server.known_values import with_spans_replaced
from codemode_server.privacy.echoes import Echoes, tokenized_echo

SENT = {
    "<EMAIL_1>": "Annabel.Leary@corp.example",
    "<NAME_1>": "Annabel Leary",
    "<NAME_2>": "Ann Lee",
    "<PHONE_1>": "+49 30 901820",
    "<IBAN_1>": "DE89370400440532013000",
}


def shown(text: str) -> str:
    return with_spans_replaced(text, Echoes(SENT).spans(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("annabel.leary@corp.example", "<EMAIL_1>"),
        ("Sent to Annabel Leary <ANNABEL.LEARY@corp.example>.", "Sent to <NAME_1> <<EMAIL_1>>."),
        ("annabel_leary, annabel-leary and LEARY", "<NAME_1>, <NAME_1> and LEARY"),
        ("+4930901820 or +49 (30) 90-18-20", "<PHONE_1> or <PHONE_1>"),
        ("DE89 3704 0044 0532 0130 00", "<IBAN_1>"),
        ("Ann Lee, Ann Leeds, Joann Lee, Ann Lee", "<NAME_2>, Ann Leeds, Joann Lee, <NAME_2>"),
        ("annabel.leary", "<NAME_1>"),
        ("\u0130 Ann Lee", "\u0130 <NAME_2>"),
        ("ann@corp.example", "ann@corp.example"),
        ("", ""),
    ],
)
def test_a_value_is_found_in_any_case_and_with_any_separators_between_words(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_values_that_differ_in_a_letter_are_others() -> None:
    sent = {"<EMAIL_1>": "ann@fa\u00df.de"}
    assert with_spans_replaced("ann@fass.de ann@fa\u00df.de", Echoes(sent).spans("ann@fass.de ann@fa\u00df.de")) == (
        "ann@fass.de <EMAIL_1>"
    )


def test_keys_and_numbers_are_searched_too() -> None:
    value = {"Ann Lee": [4930901820, 7, None, True], "n": {"Ann Leeds": "x"}}
    assert tokenized_echo(value, {**SENT, "<PHONE_1>": "4930901820"}) == {
        "<NAME_2>": ["<PHONE_1>", 7, None, True],
        "n": {"Ann Leeds": "x"},
    }


def test_a_short_value_stays() -> None:
    assert tokenized_echo("Al and 7", {"<NAME_1>": "Al", "<ID_1>": "7"}) == "Al and 7"


def test_a_value_in_several_texts_stays_since_none_of_them_stands_for_the_whole() -> None:
    value = {"first": "Annabel", "last": "Leary", "phone": [49, 30, 901820], "sizes": {"a": 4930, "b": 901820}}
    assert tokenized_echo(value, {**SENT, "<PHONE_2>": "4930901820"}) == value
    assert tokenized_echo([*value.values(), "Annabel Leary"], SENT)[-1] == "<NAME_1>", "the control"
