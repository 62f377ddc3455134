"""Tokens in place of findings and values in place of tokens, in any JSON value; and the normal forms of values."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges, label_of
from codemode_server.json_texts import BATCH_CHARACTERS
from codemode_server.known_values import found_in
from codemode_server.privacy.detector import Detector
from codemode_server.privacy.normal_forms import normal_form
from codemode_server.privacy.replacing import numbers_among, replaced, tokens_in
from codemode_server.privacy.token_map import KnownTexts
from codemode_server.privacy.values_in_text import with_values
from codemode_server.redaction import MASK, Redactor

REGIONS = ("DE", "US")
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
    assert numbers_among(found) == {("card", "4111111111111111")}
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
    assert normal_form(kind, one, REGIONS) == normal_form(kind, other, REGIONS)
    assert normal_form(kind, one, REGIONS) != normal_form(kind, one + "9", REGIONS), "the control"


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
    assert normal_form(kind, one, REGIONS) != normal_form(kind, other, REGIONS)
    assert normal_form(kind, one, REGIONS) == normal_form(kind, f" {one} ", REGIONS), "the control"


def test_of_values_that_are_searched_for_alike_the_token_is_that_of_the_one_that_is_there() -> None:
    texts = KnownTexts()
    named = {"<EMAIL_1>": "ann@fass.de", "<EMAIL_2>": "ann@faß.de"}
    texts.take(TokenChanges([KnownToken(token, "email", value) for token, value in named.items()], 1))
    redactor = Redactor().replacing(texts)
    assert redactor.text("ann@fass.de, Ann@faß.de, ANN@FASS.DE") == "<EMAIL_1>, <EMAIL_2>, <EMAIL_1>"
    texts.take(TokenChanges([KnownToken("<EMAIL_1>", "email", None)], 2))
    assert redactor.text("ann@fass.de, ann@faß.de") == "<EMAIL_2>, <EMAIL_2>", "found in the other spelling"


@pytest.mark.parametrize(("kind", "label"), [("national_id", "NATIONAL_ID"), ("emp-no", "EMP_NO"), ("7", "KIND_7")])
def test_a_token_begins_with_its_kind(kind: str, label: str) -> None:
    assert label_of(kind) == label


def test_a_redactor_replaces_known_values_beside_secrets_also_where_they_overlap() -> None:
    known = KnownTexts()
    known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
    redactor = Redactor(["secret-ann@example", "sk-1234567890"]).replacing(known)
    assert redactor.text("to ann@example.org") == "to <EMAIL_1>"
    assert redactor.text("secret-ann@example.org sk-1234567890") == f"{MASK} {MASK}"
    assert redactor.value({"ann@example.org": ["x ann@example.org", 5]}) == {"<EMAIL_1>": ["x <EMAIL_1>", 5]}
    assert redactor.head("to ann@example.org", 6) == "to <EMAIL_1>"
    assert redactor.text(plain := "nothing here") is plain
    known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", None)], 2))
    assert redactor.text("to ann@example.org") == "to ann@example.org", "forgotten"


def test_known_values_in_arguments_become_tokens_where_they_stand_as_they_are() -> None:
    known = KnownTexts()
    known.take(
        TokenChanges(
            [KnownToken("<EMAIL_1>", "email", "ann@example.org"), KnownToken("<PHONE_1>", "phone", "4930901820")], 1
        )
    )
    value = {
        "to": ["to ann@example.org, twice ann@example.org", 4930901820, 49309018201, None],
        "ann@example.org": True,
    }
    assert known.tokenized(value) == {
        "to": ["to <EMAIL_1>, twice <EMAIL_1>", "<PHONE_1>", 49309018201, None],
        "<EMAIL_1>": True,
    }
    assert known.kinds_in(value) == {"<EMAIL_1>": "email", "<PHONE_1>": "phone"}
    assert known.tokenized(plain := {"a": [1, "b"]}) is plain


def test_a_value_that_is_spread_over_the_items_of_a_list_is_replaced_in_each() -> None:
    known = KnownTexts()
    known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
    redactor = Redactor().replacing(known)
    spread = redactor.value({"rows": [1, *"ann@example.org"], "state": "open"})
    assert spread["state"] == "open"
    assert {*spread["rows"]} <= {1, "<EMAIL_1>", "@", "."}
    assert redactor.value({"parts": ["ann", "@exam", "ple.org"]}) == {"parts": ["<EMAIL_1>"] * 3}
    assert redactor.value(plain := {"rows": [1, *"beth@example.de"]}) is plain, "the control"


def test_texts_that_are_searched_together_are_found_as_alone_unless_a_value_is_spread_over_them() -> None:
    known = KnownTexts()
    known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
    value: list[Any] = ["ann@example.org", "ann@exam", "ple.org", "an ann@example.org, twice ann@example.org", 12345]
    found = found_in(known, value).in_others
    assert [found.get(number) for number in (0, 3, 4)] == [known.spans(value[0]), known.spans(value[3]), None]
    assert Redactor().replacing(known).value(value) == [
        *("<EMAIL_1>", "<EMAIL_1>", "<EMAIL_1>"),
        "an <EMAIL_1>, twice <EMAIL_1>",
        12345,
    ]


def test_equal_texts_beside_a_spread_value_stay() -> None:
    """Each item is replaced where it stands, and no other text that happens to be equal."""
    known = KnownTexts()
    known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
    redactor = Redactor(["sk-1234567890"]).replacing(known)
    value = {
        "grade": "a",
        "rows": ["n", {"a": "e"}, *"ann@example.org", "x" * (BATCH_CHARACTERS + 1), "a"],
        "keys": {"a": 1, "to ann@example.org": {"n": "a"}, "z": "n"},
        "long": "y" * BATCH_CHARACTERS + " ann@example.org",
        "last": ["a", 3, None, True, "o", "sk-1234567890"],
    }
    shown = redactor.value(value)
    assert isinstance(shown, dict)
    assert "<EMAIL_1>" in shown["rows"][2:17]
    assert shown["rows"][17:] == value["rows"][17:]  # type: ignore[index]
    assert shown["keys"] == {"a": 1, "to <EMAIL_1>": {"n": "a"}, "z": "n"}
    assert shown["long"].endswith("y <EMAIL_1>")
    assert (shown["grade"], shown["last"]) == ("a", ["a", 3, None, True, "o", "***"])
    assert known.tokenized({"a": list("ann@example.org"), "b": "a"}) == {"a": list("ann@example.org"), "b": "a"}


class TestTwoKeysThatBecomeOne:
    VALUE: ClassVar[dict[str, Any]] = {"ann@example.org": 1, "ANN@example.org": {"a": 2}, "<EMAIL_1> (2)": 3, "b": 4}

    def test_both_stay_in_what_is_shown(self) -> None:
        known = KnownTexts()
        known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
        shown = Redactor().replacing(known).value(self.VALUE)
        assert shown == {"<EMAIL_1>": 1, "<EMAIL_1> (3)": {"a": 2}, "<EMAIL_1> (2)": 3, "b": 4}

    def test_both_stay_in_arguments(self) -> None:
        known = KnownTexts()
        known.take(TokenChanges([KnownToken("<EMAIL_1>", "email", "ann@example.org")], 1))
        assert known.tokenized({"<EMAIL_1>": 1, "ann@example.org": 2}) == {"<EMAIL_1>": 1, "<EMAIL_1> (2)": 2}

    def test_both_stay_where_secrets_are_masked(self) -> None:
        secrets = Redactor(["sk-1234567890", "sk-abcdefghij"])
        assert secrets.value({"sk-1234567890": 1, "sk-abcdefghij": 2}) == {"***": 1, "*** (2)": 2}
