"""What the product writes in place of values stays as it is, whatever upstreams call names: the words of tokens too."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.known_values import with_spans_replaced
from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import DetectionSettings
from codemode_server.privacy.token_map import KnownTexts, TokenMap

EMAIL = KnownToken("<EMAIL_1>", "email", "ann.lee@example.org")


def known(*names: str, kind: str = "name") -> KnownTexts:
    """One address, and these as values of a kind."""
    texts = KnownTexts()
    values = [KnownToken(f"<{kind.upper()}_{number}>", kind, name) for number, name in enumerate(names, 2)]
    texts.take(TokenChanges([EMAIL, *values], 1))
    return texts


def shown(text: str, texts: KnownTexts) -> str:
    return with_spans_replaced(text, texts.spans(text))


def found(value: Any) -> list[tuple[str, str]]:
    return [(it.kind, it.value) for it in Detector().in_value(value).found]


class TestAKnownValue:
    @pytest.mark.parametrize("name", ["EMAIL", "EMAIL_1", "EMAIL_1x", "LIAME", "1 LIAME", "E M A I L", "part of EMAIL"])
    @pytest.mark.parametrize("text", ["to <EMAIL_1>", "<EMAIL_1>,<EMAIL_1>", "to <part of EMAIL_1> here", "<EMAIL>"])
    def test_is_not_found_within_a_token(self, name: str, text: str) -> None:
        assert shown(text, known(name)) == text

    def test_is_found_beside_a_token(self) -> None:
        """The control of the others."""
        texts = known("Kowalczyk")
        assert shown("<EMAIL_1> of Kowalczyk <EMAIL_1>", texts) == "<EMAIL_1> of <NAME_2> <EMAIL_1>"

    def test_that_has_a_token_in_it_is_replaced_beside_it(self) -> None:
        texts = known("5 Main Street <EMAIL_1>", "EMAIL_1", kind="address")
        assert shown("at 5 Main Street <EMAIL_1>", texts) == "at <part of ADDRESS_2> <EMAIL_1>"

    @pytest.mark.parametrize("text", ["<KOWALCZYK_1>", "<part of KOWALCZYK_1>", "<EMAIL_490309018>", "<KOWALCZYK>"])
    def test_is_found_in_what_has_the_form_of_a_token_and_is_none(self, text: str) -> None:
        """A program that sees values could write them so."""
        texts = KnownTexts()
        values = [KnownToken("<NAME_1>", "name", "Kowalczyk"), KnownToken("<PHONE_1>", "phone", "+490309018")]
        texts.take(TokenChanges([EMAIL, *values], 1))
        assert shown(text, texts) != text

    def test_of_another_principal_is_not_found_within_a_token(self) -> None:
        tokens = TokenMap(None)  # type: ignore[arg-type]  # it is not asked
        tokens.texts_of(PrincipalId("ann")).take(TokenChanges([EMAIL], 1))
        bob = KnownToken("<NAME_1>", "name", "EMAIL_1x Kowalczyk")
        tokens.texts_of(PrincipalId("bob")).take(TokenChanges([bob], 1))
        text = "<EMAIL_1> EMAIL_1x Kowalczyk"
        assert with_spans_replaced(text, tokens.spans(text)) == "<EMAIL_1> <NAME_1>"

    @pytest.mark.parametrize("name", ["EMAIL", "EMAIL_1", "BIRTH_DATE"])
    def test_that_is_the_label_of_a_kind_is_found_nowhere(self, name: str) -> None:
        """A store of an earlier state may have it."""
        text = f"`codemode-server privacy show {name}`, {name}"
        assert shown(text, known(name)) == text

    def test_of_a_pattern_is_found_although_it_looks_like_the_label_of_a_kind(self) -> None:
        assert shown("case CARD_1234", known("CARD_1234", kind="case")) == "case <CASE_2>"


class TestTheDetection:
    @pytest.mark.parametrize("name", ["EMAIL", "EMAIL_1", "NAME", "BIRTH_DATE"])
    def test_takes_the_label_of_a_kind_for_no_name(self, name: str) -> None:
        assert found({"full_name": name}) == []

    @pytest.mark.parametrize("name", ["Card", "Bert Smithson", "EMAILY"])
    def test_takes_other_words_for_names(self, name: str) -> None:
        assert found({"last_name": name}) == [("name", name)]

    @pytest.mark.parametrize(
        "value",
        [
            {"NAME": "NAME", "EMAIL": "EMAIL"},
            {"first_name": "First Name", "surname": "Last Name", "dob": "date of birth"},
            "Name;E-Mail\nBert Smithson;b@example.org\nName;E-Mail\n",
        ],
    )
    def test_takes_a_header_for_no_name(self, value: Any) -> None:
        names = [value for kind, value in found(value) if kind == "name"]
        assert names == (["Bert Smithson"] if isinstance(value, str) else [])

    @pytest.mark.parametrize(
        ("address", "values"),
        [
            ("5 Main Street <EMAIL_1>", ["5 Main Street"]),
            ("5 Main Street, <part of NAME_1>, 12345 Berlin", ["5 Main Street", "12345 Berlin"]),
            ("5 Main Street", ["5 Main Street"]),
        ],
    )
    def test_cuts_nothing_out_of_tokens(self, address: str, values: list[str]) -> None:
        assert [value for _, value in found({"address": address})] == values

    def test_finds_what_a_pattern_says_beside_tokens_only(self) -> None:
        detector = Detector(DetectionSettings(patterns={"case": "CARD_#{4}"}))
        found = detector.in_text("<CARD_1234> of CARD_1234").found
        assert [(it.kind, it.value, it.start) for it in found] == [("case", "CARD_1234", 15)]
