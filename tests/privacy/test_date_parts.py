"""A date of birth in parts is one value: below a field that says so, the whole object or list has one token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.replacing import replaced


def shown(value: Any) -> Any:
    found = Detector().in_value(value).found
    return replaced(value, found, {(one.kind, one.value): f"<{one.kind}: {one.value}>" for one in found})


DATE = {"year": 1987, "month": 3, "day": 14}
TOKEN = "<birth_date: 1987-03-14>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"date_of_birth": DATE}, {"date_of_birth": TOKEN}),
        ({"dob": {"Day": "14", "Month": "03", "Year": "1987"}}, {"dob": TOKEN}),
        ({"dob": [1987, 3, 14]}, {"dob": TOKEN}),
        ({"dob": [14, 3, 1987]}, {"dob": TOKEN}),
        (
            {"birthdays": [{"metadata": {"primary": True}, "date": DATE, "text": "1987-03-14"}]},
            {"birthdays": [{"metadata": {"primary": True}, "date": TOKEN, "text": TOKEN}]},
        ),
        (
            {"Birthday": {"type": "date", "date": {"start": "1987-03-14", "end": None}}},
            {"Birthday": {"type": "date", "date": {"start": TOKEN, "end": None}}},
        ),
        ({"body": json.dumps({"dob": DATE})}, {"body": json.dumps({"dob": TOKEN})}),
    ],
)
def test_a_date_of_birth_in_parts_gets_one_token(value: Any, expected: Any) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"date": DATE},
        {"due": [2026, 3, 14]},
        {"dob": [1, 2, 3]},
        {"birthday": {"year": 1987, "month": 13, "day": 14}},
        {"Due": {"type": "date", "date": {"start": "1987-03-14"}}},
    ],
)
def test_other_dates_and_numbers_stay(value: Any) -> None:
    assert shown(value) == value
