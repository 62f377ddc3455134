"""The name beside an e-mail address is found where it is a person's, and nothing but the name."""

from __future__ import annotations

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import Kind


def names(text: str) -> list[str]:
    return [one.value for one in Detector().in_value({"text": text}).found if one.kind == Kind.NAME]


@pytest.mark.parametrize(
    ("text", "found"),
    [
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
    ],
)  # fmt: skip
def test_the_name_of_a_person_beside_an_address_is_found(text: str, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "From: Support <x@y.org>",
        "Acme Billing <billing@acme.com>",
        "Jira (Acme) <jira@acme.net>",
        "Berlin Office <berlin@x.org>",
        "Widgetron Acme <widgetron@acme.com>",
        "Desk Lamp (a@b.org)",
        "see <a@b.org>",
        "issuer: CN=Let's Encrypt R3,O=Let's Encrypt",
        "Ann Lee wrote a@b.org",
    ],
)
def test_the_name_of_anything_else_stays(text: str) -> None:
    assert names(text) == []
