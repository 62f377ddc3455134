"""What the product writes in place of values stays as it is, whatever upstreams call names: the words of tokens too."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.known_values import with_spans_replaced
from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import DetectionSettings
from codemode_server.privacy.queries import renamed_by
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


def found(value: Any, *tokens: str) -> list[tuple[str, str]]:
    """What is found by one who has these tokens."""
    return [(it.kind, it.value) for it in Detector().in_value(value, is_token=tokens.__contains__).found]


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
        assert [value for _, value in found({"address": address}, "<EMAIL_1>", "<NAME_1>")] == values

    @pytest.mark.parametrize("text", ["<NAME_1>", "\\u003cNAME_1\\u003e", "<part of NAME_1>"])
    def test_takes_no_token_for_a_value(self, text: str) -> None:
        assert found({"full_name": text}, "<NAME_1>") == []

    @pytest.mark.parametrize("token", ["<NAME_7>", "<ADDRESS_7>"])
    def test_takes_no_token_that_was_forgotten_for_a_value(self, token: str) -> None:
        assert found({"full_name": token}) == []

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            ("to <DE89370400440532013000_1>", "iban"),
            ({"card": "<CARD_4111111111111111>"}, "card"),
        ],
    )
    def test_finds_values_in_the_form_of_tokens_that_do_not_exist(self, value: Any, kind: str) -> None:
        assert [found_kind for found_kind, _ in found(value, "<NAME_1>", "<EMAIL_1>")] == [kind]

    @pytest.mark.parametrize(
        ("value", "kinds"),
        [("<DE89370400440532013000_1>", ["iban"]), ({"full_name": "<NAME_1>"}, []), ("<CASE_1>", [])],
    )
    def test_without_a_principal_counts_tokens_of_its_kinds(self, value: Any, kinds: list[str]) -> None:
        detector = Detector(DetectionSettings(patterns={"case": "CASE_#{1}"}))
        assert [it.kind for it in detector.in_value(value).found] == kinds

    @pytest.mark.parametrize(
        ("query", "value", "kind"),
        [
            ("'<' || name || '_1>'", "<XQARU_ZEDVIK_1>", "name"),
            ("'<part of ' || name || '_1>'", "<part of XQARU_ZEDVIK_1>", "name"),
            ("'<D_' || born || '_1>'", "<D_19901201_1>", "birth_date"),
            ("'<BIRTH_DATE_' || born || '>'", "<BIRTH_DATE_19901201>", "birth_date"),
        ],
    )
    def test_finds_what_a_query_has_put_into_the_form_of_a_token(self, query: str, value: str, kind: str) -> None:
        fields = renamed_by({"sql": f"SELECT {query} AS x FROM people"})
        found = Detector().in_value([{"x": value}], None, fields, lambda _: False).found
        assert [it.kind for it in found] == [kind]
        assert Detector().in_value([{"x": value}], None, fields, lambda _: True).found == (), "a token that exists"

    def test_finds_what_a_pattern_says_beside_tokens_only(self) -> None:
        detector = Detector(DetectionSettings(patterns={"case": "CARD_#{4}"}))
        found = detector.in_text("<CARD_1234> of CARD_1234", is_token={"<CARD_1234>"}.__contains__).found
        assert [(it.kind, it.value, it.start) for it in found] == [("case", "CARD_1234", 15)]

    def test_finds_what_a_pattern_says_in_the_form_of_a_token_that_does_not_exist(self) -> None:
        detector = Detector(DetectionSettings(patterns={"case": "CARD_#{4}"}))
        assert [it.value for it in detector.in_text("<CARD_1234>", is_token=lambda _: False).found] == ["CARD_1234"]
