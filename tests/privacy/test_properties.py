"""Persons in vCard and LDIF: each value is found alone, and cards of organizations and entries of groups stay."""

from __future__ import annotations

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.replacing import replaced


def shown(text: str) -> str:
    found = Detector().in_value([text]).found
    made = replaced([text], found, {(one.kind, one.value): f"<{one.kind.upper()}>" for one in found})
    assert isinstance(made, list)
    return str(made[0])


CARD = (
    "BEGIN:VCARD\r\nVERSION:3.0\r\nFN;CHARSET=UTF-8:{fn}\r\nN:{n}\r\n{more}item1.BDAY:{bday}\r\n"
    "TEL;TYPE=CELL:{tel}\r\nADR;TYPE=HOME:;;{street};Dublin;;D02;Ireland\r\nEND:VCARD\r\n"
)


@pytest.mark.parametrize("bday", ["1987-03-14", "19870314", "1987-03-14T00:00:00Z"])
def test_a_card_of_a_person(bday: str) -> None:
    text = CARD.format(
        fn="Xiuying O'Qrst",
        n="O'Qrst;Xiuying;;;",
        more="ORG:Acme\r\n",
        bday=bday,
        tel="030 901820",
        street="12 Upper Row",
    )
    assert shown(text) == CARD.format(
        fn="<NAME>", n="<NAME>;<NAME>;;;", more="ORG:Acme\r\n", bday="<BIRTH_DATE>", tel="<PHONE>", street="<ADDRESS>"
    )


@pytest.mark.parametrize("more", ["ORG:Acme Works\r\n", "KIND:org\r\n"])
def test_a_card_of_an_organization_stays(more: str) -> None:
    text = CARD.format(fn="Acme Works", n=";;;;", more=more, bday="", tel="", street="")
    assert shown(text) == text


def test_an_entry_of_a_directory() -> None:
    entry = (
        "dn: uid=7,ou=people\ncn: {cn}\nsn: {sn}\ngivenName: {given}\nmail: {mail}\n\ndn: ou=groups\ncn: Site Admins\n"
    )
    text = entry.format(cn="Xiuying O'Qrst", sn="O'Qrst", given="Xiuying", mail="x@example.org")
    assert shown(text) == entry.format(cn="<NAME>", sn="<NAME>", given="<NAME>", mail="<EMAIL>")


@pytest.mark.parametrize(
    "text", ["FN:Acme Works\nN:1\nBDAY:1987-03-14", "BEGIN:VEVENT\nFN:Ann\nX:VCARD", "sn: Works\ncn: Ann"]
)
def test_such_lines_elsewhere_stay(text: str) -> None:
    assert shown(text) == text
