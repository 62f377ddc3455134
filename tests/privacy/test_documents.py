"""Numbers of passports, identity cards and driving licences, which only the name of a field tells."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import Kind


def numbers(value: Any) -> list[str]:
    return [one.value for one in Detector().in_value(value).found if one.kind == Kind.NATIONAL_ID]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ({"passport_number": "C01X00T47"}, "C01X00T47"),
        ({"passport": {"number": "C01X00T47", "country": "DEU"}}, "C01X00T47"),
        ({"passportNo": 123456789}, "123456789"),
        ({"drivers_license": "D1234567"}, "D1234567"),
        ({"drivingLicenceNumber": "MORGA-657054-SM9IJ"}, "MORGA-657054-SM9IJ"),
        ({"Führerscheinnummer": "B072RRE2I55"}, "B072RRE2I55"),
        ({"text": "Passport: C01X00T47."}, "C01X00T47"),
        ({"text": "her passport number: C01X00T47, valid"}, "C01X00T47"),
    ],
)
def test_the_number_of_a_document_is_found(value: Any, number: str) -> None:
    assert numbers(value) == [number]


@pytest.mark.parametrize(
    "value",
    [
        {"license": "MIT", "license_key": "ABCD-1234-EFGH", "device_license": "X12345678"},
        {"passport_expiry": "2030-01-01", "passport_country": "DEU", "passport_strategy": "oauth2"},
        {"passport_issued_at": "2020-01-01T10:00:00Z", "passport-local": "1.0.0"},
        {"text": "passport: ok, article number: C01X00T47"},
    ],
)
def test_other_licences_and_what_is_said_about_a_document_stay(value: Any) -> None:
    assert numbers(value) == []
