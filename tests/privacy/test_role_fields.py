"""Names of persons in fields of roles, with the last name first, and in columns that JSON has by index."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import Kind


def names(value: Any) -> list[str]:
    return [one.value for one in Detector().in_value(value).found if one.kind == Kind.NAME]


@pytest.mark.parametrize(
    ("value", "found"),
    [
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
    ],
)
def test_persons_are_found(value: Any, found: list[str]) -> None:
    assert names(value) == found


@pytest.mark.parametrize(
    "value",
    [
        {"attendees": ["Growth Team", "Conference Room 3"]},
        {"name": "codemode", "full_name": "acme/codemode", "owner": {"login": "acme"}},
        {"from": "Berlin Mitte", "to": "Hamburg Altona", "user": "U0123456", "created_by": "system"},
        {"name": {"0": "Desk Lamp", "1": "Blue Kettle"}, "price": {"0": 12, "1": 13}},
        {"text": "from: main, to: release\nCreated by: Terraform Cloud\nauthor = Acme Corp\nNote: Ann Lee came"},
    ],
)
def test_teams_packages_repositories_and_places_stay(value: Any) -> None:
    assert names(value) == []


def test_dates_of_birth_are_found_in_columns_by_index() -> None:
    found = Detector().in_value({"dob": {"0": "1987-03-14"}, "due": {"0": "2026-03-14"}}).found
    assert [(one.kind, one.value) for one in found] == [(Kind.BIRTH_DATE, "1987-03-14")]
