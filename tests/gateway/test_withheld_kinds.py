"""What stands for personal data without a token is found in arguments, and what only looks like it is plain text."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.gateway.withheld_kinds import why_refused, withheld_in
from codemode_server.privacy_settings import PrivacySettings

SETTINGS = PrivacySettings(patterns={"staff_number": "S-####"})


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"born": "<BIRTH_DATE>"}, {"<BIRTH_DATE>": "birth_date"}),
        ({"rows": [{"note": "Ann, <BIRTH_DATE>, Berlin"}]}, {"<BIRTH_DATE>": "birth_date"}),
        ({"to": " <EMAIL> "}, {"<EMAIL>": "email"}),
        ({"staff": "<STAFF_NUMBER>"}, {"<STAFF_NUMBER>": "staff_number"}),
        ({"name": "<part of STAFF_NUMBER_7>"}, {"<part of STAFF_NUMBER_7>": "staff_number"}),
        ({"q": "SELECT id FROM t WHERE name = '<part of EMAIL_4>'"}, {"<part of EMAIL_4>": "email"}),
        ({"q": "SELECT id FROM t WHERE name LIKE '%<part of EMAIL_4>%'"}, {"<part of EMAIL_4>": "email"}),
    ],
)
def test_a_word_that_stands_for_personal_data_is_found(arguments: dict[str, Any], found: dict[str, str]) -> None:
    assert withheld_in(SETTINGS, arguments) == found


@pytest.mark.parametrize(
    "text",
    [
        "<BIRTH_DATE_1>",
        "<BIRTH_DATE>1987-03-14</BIRTH_DATE>",
        "<NAME>Ann</NAME>",
        "Dear <NAME>",
        "<email>",
        "<STREET>",
        "BIRTH_DATE",
        "I am <part of EMAIL_4>, hello",
        "<part of STREET_1>",
    ],
)
def test_tokens_and_elements_of_xml_are_none(text: str) -> None:
    assert withheld_in(SETTINGS, {"text": text}) == {}


def test_the_reason_says_how_tokens_are_got() -> None:
    assert "read these records with a call without dates" in why_refused(["<BIRTH_DATE>", "<EMAIL>"])
    assert "read a record that has the whole value" in why_refused(["<part of EMAIL_4>"])
    assert why_refused(["<EMAIL>"]).startswith("the arguments have <EMAIL>, which is no privacy token")
