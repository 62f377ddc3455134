"""Names beside e-mail addresses, in fields of roles and in columns by index, and numbers of documents, which only the
name of a field tells; and what stands in such places and is neither."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.findings import Kind


def values(kind: Kind, value: Any) -> list[str]:
    return [one.value for one in Detector().in_value(value).found if one.kind == kind]


# fmt: off
BESIDE_ADDRESSES = [
    ("Annabel O'Leary <a@b.org>", ["Annabel O'Leary"]),
    ("From: Annabel O'Leary <a@b.org>\nTo: x@b.org", ["Annabel O'Leary"]),
    ('"Bert Ray" <b@b.org>, Carol Hill <c@d.org>; Eve Lee <d@e.org>', ["Bert Ray", "Carol Hill", "Eve Lee"]),
    ('"Smithson, Bert" <b@b.org>', ["Smithson, Bert"]),
    ("Annabel <a@b.org>", ["Annabel"]),
    ("Ludwig van der Berg <l@x.nl>", ["Ludwig van der Berg"]),
    ("please write to Annabel O'Leary <a@b.org> today", ["Annabel O'Leary"]),
    ("at 10:12 AM Annabel O'Leary <a@b.org> wrote:", ["Annabel O'Leary"]),
    ("Annabel O'Leary (via Google Docs) <drive-shares-noreply@google.com>", ["Annabel O'Leary"]),
    ('"Annabel O\'Leary (Jira)" <jira@acme.atlassian.net>', ["Annabel O'Leary"]),
    ("Xiuying Qrst <xqrst@corp.org>", ["Xiuying Qrst"]),
    ("A. O'Leary <a.oleary@x.org>", ["A. O'Leary"]),
    ("Author: Ann Lee <ann@x.org>\nCo-authored-by: Bob Ray <bob@x.org>", ["Ann Lee", "Bob Ray"]),
    ("Ann Lee (ann@x.org)", ["Ann Lee"]),
    ("Annabel O&#x27;Leary &lt;a@b.org&gt;", ["Annabel O'Leary"]),
    ("uid=7,cn=Annabel O'Leary,ou=people", ["Annabel O'Leary"]),
]
IN_FIELDS: list[tuple[Any, list[str]]] = [
    ({"displayNameLastFirst": "O'Leary, Annabel"}, ["O'Leary, Annabel"]),
    ({"assigned_to": "Annabel O'Leary", "Created By": "Bob Ray"}, ["Annabel O'Leary", "Bob Ray"]),
    ({"assigned_to": {"display_value": "Ann Lee", "link": "x"}}, ["Ann Lee"]),
    ({"headers": [{"name": "From", "value": "Ann Lee"}]}, ["Ann Lee"]),
    ({"attendees": ["Ann Lee", "Bob Ray", "Xiuying Qrst", "room-3"]}, ["Ann Lee", "Bob Ray", "Xiuying Qrst"]),
    (
        [{"reporter": name} for name in ("Ann Lee", "Bob Ray", "Xiuying Qrst")],
        ["Ann Lee", "Bob Ray", "Xiuying Qrst"],
    ),
    ({"name": {"0": "Ann Lee", "1": "Xiuying Qrst", "2": "Bob Ray"}}, ["Ann Lee", "Xiuying Qrst", "Bob Ray"]),
    ({"name": {"7": "Xiuying Qrst"}, "email": {"7": "x@y.org"}}, ["Xiuying Qrst"]),
    (
        {"text": "**Assignee:** Ann Lee\nReporter: Bob Ray\nCreated by: Eve Hill"},
        ["Ann Lee", "Bob Ray", "Eve Hill"],
    ),
]
DOCUMENTS: list[tuple[Any, str]] = [
    ({"passport_number": "C01X00T47"}, "C01X00T47"),
    ({"passport": {"number": "C01X00T47", "country": "DEU"}}, "C01X00T47"),
    ({"passportNo": 123456789}, "123456789"),
    ({"drivers_license": "D1234567"}, "D1234567"),
    ({"drivingLicenceNumber": "MORGA-657054-SM9IJ"}, "MORGA-657054-SM9IJ"),
    ({"Führerscheinnummer": "B072RRE2I55"}, "B072RRE2I55"),
    ({"text": "Passport: C01X00T47."}, "C01X00T47"),
    ({"text": "her passport number: C01X00T47, valid"}, "C01X00T47"),
]
NO_NAMES = [
    "From: Support <x@y.org>",
    "Acme Billing <billing@acme.com>",
    "Jira (Acme) <jira@acme.net>",
    "Berlin Office <berlin@x.org>",
    "Widgetron Acme <widgetron@acme.com>",
    "Desk Lamp (a@b.org)",
    "see <a@b.org>",
    "issuer: CN=Let's Encrypt R3,O=Let's Encrypt",
    "Ann Lee wrote a@b.org",
    {"attendees": ["Growth Team", "Conference Room 3"]},
    {"name": "codemode", "full_name": "acme/codemode", "owner": {"login": "acme"}},
    {"from": "Berlin Mitte", "to": "Hamburg Altona", "user": "U0123456", "created_by": "system"},
    {"name": {"0": "Desk Lamp", "1": "Blue Kettle"}, "price": {"0": 12, "1": 13}},
    {"text": "from: main, to: release\nCreated by: Terraform Cloud\nauthor = Acme Corp\nNote: Ann Lee came"},
]
NO_DOCUMENTS = [
    {"license": "MIT", "license_key": "ABCD-1234-EFGH", "device_license": "X12345678"},
    {"passport_expiry": "2030-01-01", "passport_country": "DEU", "passport_strategy": "oauth2"},
    {"passport_issued_at": "2020-01-01T10:00:00Z", "passport-local": "1.0.0"},
    {"text": "passport: ok, article number: C01X00T47"},
]
# fmt: on


@pytest.mark.parametrize(("value", "found"), [*BESIDE_ADDRESSES, *IN_FIELDS])
def test_names_of_persons_are_found(value: Any, found: list[str]) -> None:
    assert values(Kind.NAME, {"text": value} if isinstance(value, str) else value) == found


@pytest.mark.parametrize(("value", "number"), DOCUMENTS)
def test_the_number_of_a_document_is_found(value: Any, number: str) -> None:
    assert values(Kind.NATIONAL_ID, value) == [number]


@pytest.mark.parametrize("value", NO_NAMES)
def test_names_of_teams_packages_and_places_stay(value: Any) -> None:
    assert values(Kind.NAME, {"text": value} if isinstance(value, str) else value) == []


@pytest.mark.parametrize("value", NO_DOCUMENTS)
def test_other_licences_and_what_is_said_about_a_document_stay(value: Any) -> None:
    assert values(Kind.NATIONAL_ID, value) == []


def test_dates_of_birth_are_found_in_columns_by_index() -> None:
    value = {"dob": {"0": "1987-03-14"}, "due": {"0": "2026-03-14"}}
    assert values(Kind.BIRTH_DATE, value) == ["1987-03-14"]
