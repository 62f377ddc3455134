"""Tokens in place of findings and values in place of tokens, in any JSON value; and the normal forms of values."""

from __future__ import annotations

import base64
from typing import Any, ClassVar

import pytest

from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.known_texts import EveryValue, KnownTexts, without_echo
from codemode_server.features.privacy.replacing import replaced, tokens_in
from codemode_server.features.privacy.token_map import normal_form
from codemode_server.features.privacy.values_in_text import with_values
from codemode_server.support.redaction import Redactor

VALUE: dict[str, Any] = {
    "rows": [{"email": "ann@example.org", "note": "ann@example.org and ben@example.org"}, 7, None, True],
    "ann@example.org": {"payment_card": 4111111111111111},
}
TOKENS = {"ann@example.org": "<EMAIL_1>", "ben@example.org": "<EMAIL_2>", "4111111111111111": "<CARD_1>"}


def test_texts_keys_and_numbers_become_tokens_and_values_again() -> None:
    found = Detector().in_value(VALUE).found
    tokens = {(it.kind, it.value): TOKENS[it.value] for it in found}
    made = replaced(VALUE, found, tokens)
    assert made == {
        "rows": [{"email": "<EMAIL_1>", "note": "<EMAIL_1> and <EMAIL_2>"}, 7, None, True],
        "<EMAIL_1>": {"payment_card": "<CARD_1>"},
    }
    assert tokens_in(made) == set(TOKENS.values())
    values: dict[str, str | int | float] = {token: value for value, token in TOKENS.items()}
    values["<CARD_1>"] = 4111111111111111
    assert with_values(made, values) == VALUE


def test_two_keys_of_one_person_stay_two_entries() -> None:
    value: dict[str, Any] = {"Ann@example.org": 1, "<EMAIL_1>": 2, "ann@example.org": 3, "x": 4}
    found = Detector().in_value(value).found
    made = replaced(value, found, dict.fromkeys([(it.kind, it.value) for it in found], "<EMAIL_1>"))
    assert made == {"<EMAIL_1> (2)": 1, "<EMAIL_1>": 2, "<EMAIL_1> (3)": 3, "x": 4}


def test_what_is_no_token_or_not_known_stays() -> None:
    texts = ["<b>", "<EMAIL_0>", "<email_1>", "<EMAIL_2>", "< EMAIL_1>"]
    assert with_values(texts, {"<EMAIL_1>": "x"}) == texts


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("email", "Ann@Example.org", "ann@example.ORG"),
        ("phone", "+49 30 901820", "0049 (30) 901820"),
        ("phone", "030/901820", "+4930901820"),
        ("card", "4111 1111 1111 1111", "4111111111111111"),
        ("iban", "DE89 3704 0044 0532 0130 00", "de89370400440532013000"),
        ("ip", "2001:db8::1", "2001:0db8:0:0:0:0:0:1"),
        ("name", "Ann  Lee", "ANN LEE"),
    ],
)
def test_equal_values_have_one_normal_form(kind: str, one: str, other: str) -> None:
    assert normal_form(kind, one) == normal_form(kind, other)
    assert normal_form(kind, one) != normal_form(kind, one + "9"), "the control"


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("email", "ann@fass.de", "ann@faß.de"),
        ("email", "ann@οδος.gr", "ann@οδοσ.gr"),
        ("email", "ann@fit.de", "ann@ﬁt.de"),
        ("name", "Anna Gross", "Anna Groß"),
        ("name", "José Paz", "Jose Paz"),
        ("address", "Hauptstraße 5", "Hauptstrasse 5"),
        ("phone", "+49 30 901820", "+49 30 901820 ext. 666"),
        ("phone", "+49 30 901820", "+49 30 901821"),
        ("card", "4111111111111111", "４111111111111111"),
        ("credential", "tr0ub4dor", "Tr0ub4dor"),
    ],
)
def test_values_that_differ_in_a_letter_or_digit_have_different_normal_forms(kind: str, one: str, other: str) -> None:
    assert normal_form(kind, one) != normal_form(kind, other)
    assert normal_form(kind, one) == normal_form(kind, f" {one} "), "the control"


PEOPLE = {
    "<EMAIL_1>": ("email", "Ann@Example.org"),
    "<NAME_1>": ("name", "Ann Lee"),
    "<NAME_2>": ("name", "Mark"),
    "<NAME_3>": ("name", "In Progress"),
    "<BIRTH_DATE_1>": ("birth_date", "1987-03-14"),
    "<ADDRESS_1>": ("address", "12 Mill Road"),
    "<CREDENTIAL_1>": ("credential", "opensesame"),
}


def people() -> KnownTexts:
    known = KnownTexts()
    known.take(TokenChanges([KnownToken(it, kind, text, server="crm") for it, (kind, text) in PEOPLE.items()], 7))
    return known


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to ann@example.ORG.", "to <EMAIL_1>."),
        ("of ann lee's", "of <NAME_1>'s"),
        ("Ann Leeson, joann@example.org", None),
        ("at 12 mill road", "at <ADDRESS_1>"),
        ("Mark, it is in progress, born 1987-03-14, say opensesame", None),
        ("<NAME_1> and <Mark>", None),
        ("İstanbul, ann lee", "İstanbul, <NAME_1>"),
        ("\ud800 Ann Lee", "\ud800 <NAME_1>"),
        (r"x\nAnn Lee %20Ann Lee", r"x\n<NAME_1> %20<NAME_1>"),
        ("ee" + "Ann Lee" * 3 + " Ann Lee", "ee" + "Ann Lee" * 3 + " <NAME_1>"),
    ],
)
def test_telling_values_are_replaced_between_words(text: str, shown: str | None) -> None:
    for known in (people(), EveryValue([KnownTexts(), people()])):
        assert Redactor().replacing(known).text(text) == (shown or text)


def test_values_that_are_added_later_and_forgotten_ones() -> None:
    known = people()
    for number in range(100):
        known.take(TokenChanges([KnownToken(f"<EMAIL_{number + 2}>", "email", f"p{number}@x.org")], number + 8))
    assert Redactor().replacing(known).text("p0@x.org p99@x.org Ann Lee") == "<EMAIL_2> <EMAIL_101> <NAME_1>"
    known.take(TokenChanges([KnownToken("<EMAIL_2>", "email", None)], 200))
    assert Redactor().replacing(known).text("p0@x.org p99@x.org") == "p0@x.org <EMAIL_101>"
    known.take(TokenChanges([KnownToken("<EMAIL_101>", "email", "p99@x.org")], 300, are_all=True))
    assert Redactor().replacing(known).text("p99@x.org Ann Lee") == "<EMAIL_101> Ann Lee"


def test_a_result_has_tokens_of_persons_and_of_names_that_its_server_had_first() -> None:
    held = base64.b64encode(b"of Ann Lee").decode(), base64.b64encode(b"of <NAME_1>").decode()
    assert people().tokenized_result(held[0], "tracker") == held[1]
    value = {"Ann Lee": ["Ann Lee is In Progress", "Mark"]}
    assert people().tokenized_result(value, "tracker") == {"Ann Lee": ["<NAME_1> is In Progress", "Mark"]}
    assert people().tokenized_result(value, "crm") == {"Ann Lee": ["<NAME_1> is <NAME_3>", "Mark"]}


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"q": "O'Neil <o@x.org>"}, {"q": "<NAME_9> <<EMAIL_9>>"}),
        ("https://x.org/?q=o%40x.org&n=O%27Neil", "https://x.org/?q=<EMAIL_9>&n=<NAME_9>"),
        ("<b>O&#x27;Neil</b>", "<b><NAME_9></b>"),
        ({"o@x.org": 4111}, {"<EMAIL_9>": "<CARD_9>"}),
        (base64.b64encode(b"to o@x.org").decode(), base64.b64encode(b"to <EMAIL_9>").decode()),
        ("joo@x.organic 41110", "joo@x.organic 41110"),
    ],
)
def test_an_answer_has_the_tokens_of_the_values_that_its_call_has_sent(answer: Any, shown: Any) -> None:
    assert without_echo(answer, {"<NAME_9>": "O'Neil", "<EMAIL_9>": "o@x.org", "<CARD_9>": "4111"}) == shown


class TestTwoKeysThatBecomeOne:
    VALUE: ClassVar[dict[str, Any]] = {"ann@example.org": 1, "ANN@example.org": {"a": 2}, "<EMAIL_1> (2)": 3, "b": 4}

    def test_both_stay_in_what_is_shown(self) -> None:
        known = KnownTexts()
        known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
        shown = Redactor().replacing(known).value(self.VALUE)
        assert shown == {"<EMAIL_1>": 1, "<EMAIL_1> (3)": {"a": 2}, "<EMAIL_1> (2)": 3, "b": 4}
