"""What is found as personal data and what is not: by syntax and checksum, by words, by field, and within bounds."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from codemode_server.features.privacy import detector as detector_module
from codemode_server.features.privacy import walk
from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.findings import MAX_DEPTH, MAX_FINDINGS, Findings, Kind
from codemode_server.features.privacy.settings import DetectionFields


def kinds(findings: Findings) -> dict[str, str]:
    return {one.value: one.kind for one in findings.found}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("Write to jane.roe+crm@mail.example.co.uk.", "jane.roe+crm@mail.example.co.uk", Kind.EMAIL),
        ("at crm://c/jane.roe@example.org now", "jane.roe@example.org", Kind.EMAIL),
        ("at /find?q=1&email=jane.roe@example.org&x=1", "jane.roe@example.org", Kind.EMAIL),
        ("to bounce+jane=roe.org@example.org", "bounce+jane=roe.org@example.org", Kind.EMAIL),
        ("mail ana@telekom.rs", "ana@telekom.rs", Kind.EMAIL),
        ("mail carol.danvers@corp.local: hello", "carol.danvers@corp.local", Kind.EMAIL),
        ("mail carol.danvers@acme.lan, or @acme.corp", "carol.danvers@acme.lan", Kind.EMAIL),
        ("an müller@münchen.example senden", "müller@münchen.example", Kind.EMAIL),
        ("paid with 4111 1111 1111 1111 today", "4111 1111 1111 1111", Kind.CARD),
        ("paid with 378282246310005 today", "378282246310005", Kind.CARD),
        ("to DE89 3704 0044 0532 0130 00 BIC COBADEFF", "DE89 3704 0044 0532 0130 00", Kind.IBAN),
        ("reach me at +49 30 901820", "+49 30 901820", Kind.PHONE),
        ("Tel. 030 901820", "030 901820", Kind.PHONE),
        ("dial (415) 555-2671 now", "(415) 555-2671", Kind.PHONE),
        ("cliente 529.982.247-25", "529.982.247-25", Kind.NATIONAL_ID),
        ("SSN 536-90-4399", "536-90-4399", Kind.NATIONAL_ID),
        ("Steuer-ID 36 574 261 809", "36 574 261 809", Kind.NATIONAL_ID),
        ("CF RSSMRA85T10A562S", "RSSMRA85T10A562S", Kind.NATIONAL_ID),
        ("BSN 111222333", "111222333", Kind.NATIONAL_ID),
        ("from 84.12.99.44 at noon", "84.12.99.44", Kind.IP),
        ("from 2001:db8:85a3::8a2e:370:7334 at noon", "2001:db8:85a3::8a2e:370:7334", Kind.IP),
        ("token ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_0123456789abcdefghijABCDEFGHIJ012345", Kind.CREDENTIAL),
        ("postgres://app:pa55word@db.internal/x", "pa55word", Kind.CREDENTIAL),
        ("password=Xk93-kkd2", "Xk93-kkd2", Kind.CREDENTIAL),
        ("Ann Lee, born 14 March 1987, lives there", "14 March 1987", Kind.BIRTH_DATE),
        ("geboren am 14. März 1987 in Köln", "14. März 1987", Kind.BIRTH_DATE),
        ("Date of birth: 2.3.1980", "2.3.1980", Kind.BIRTH_DATE),
        ('INFO saved full_name="Zoé D\'Aubigné"', "Zoé D'Aubigné", Kind.NAME),
        ("Wir sind in der Lindenstraße 12a zu finden", "Lindenstraße 12a", Kind.ADDRESS),
        ("au 12 rue de la Paix depuis 2020", "12 rue de la Paix", Kind.ADDRESS),
        ("at 10 Downing Street since", "10 Downing Street", Kind.ADDRESS),
    ],
)
def test_a_text_with_personal_data_has_a_finding(detector: Detector, text: str, value: str, kind: Kind) -> None:
    assert kinds(detector.in_value(text)).get(value) == kind


@pytest.mark.parametrize(
    "text",
    [
        "order 4111111111111111",
        "4111 1111 1111 1112",
        "DE00 3704 0044 0532 0130 00",
        "version 84.12.99.44",
        "1.3.6.1.4.1.311",
        "lodash@4.17.21 and icon@2x.png",
        "icon@2x.py, logo@2x.min.js, types@1.2.rs and react@18.2.0.zip",
        "git@github.com:acme/service.git",
        "ssh://deploy@web.acme.internal and deploy@web.acme.internal:/srv",
        "types@1.2.local and carol.danvers@intranet",
        "at 12:30:45 on 00:1b:44:11:3a:b7",
        "std::vector and ab::cd",
        "timestamp 1700000000 and 1700000000000",
        "2026-03-01 and 01.03.2026",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "978-3-16-148410-0",
        "52.520008, 13.404954",
        "a string 12 characters long",
        "127.0.0.1 and ::1",
        "ticket 111222333",
        "stubborn 1987-03-14, the project was born in 2015, airborne on 1987-03-14",
    ],
)
def test_what_only_looks_like_personal_data_has_none(detector: Detector, text: str) -> None:
    assert kinds(detector.in_value(text)) == {}


def test_fields_of_a_person_are_found_by_their_names(detector: Detector) -> None:
    value = {"customer": {"name": "Jane Roe", "phone": "030 901820", "dob": "1980-02-03", "street": "Am Markt 5"}}
    assert kinds(detector.in_value(value)) == {
        "Jane Roe": Kind.NAME,
        "030 901820": Kind.PHONE,
        "1980-02-03": Kind.BIRTH_DATE,
        "Am Markt 5": Kind.ADDRESS,
    }


def test_an_address_without_a_domain_is_found_in_a_field_of_addresses(detector: Detector) -> None:
    value = {"email": "carol.danvers@intranet", "mail_to": "root@web1"}
    assert kinds(detector.in_value(value)) == dict.fromkeys(value.values(), Kind.EMAIL)
    assert kinds(detector.in_value({"email": "carol%40intranet"})) == {"carol@intranet": Kind.EMAIL}
    assert kinds(detector.in_value({"package": "types@node", "shell": "root@web1", "email": "none"})) == {}


@pytest.mark.parametrize("name", ["Olga Baker", "Chloé de la Cour", "Lovelace, Ann", "Ana-Maria O'Neil", "MARÍA LÓPEZ"])
def test_a_given_name_tells_a_person_without_other_fields(detector: Detector, name: str) -> None:
    assert kinds(detector.in_value({"id": 7, "name": name})) == {name: Kind.NAME}


@pytest.mark.parametrize(
    "name", ["Desk Lamp", "Mobile App", "Growth Team", "May Report", "Virginia Office", "ann lee", "Ann", "v2 Ann"]
)
def test_other_names_are_those_of_things(detector: Detector, name: str) -> None:
    assert kinds(detector.in_value({"id": 7, "name": name})) == {}


def test_given_names_in_a_column_tell_that_all_of_it_are_persons(detector: Detector) -> None:
    names = ["Olga Baker", "Xiuying Qrst", "Cher", "Jonas Lee"]
    of_rows = detector.in_value([{"id": number, "name": name} for number, name in enumerate(names)])
    assert kinds(of_rows) == dict.fromkeys(names, Kind.NAME)
    of_table = detector.in_value([["Id", "Name"], *([str(number), name] for number, name in enumerate(names))])
    assert kinds(of_table) == dict.fromkeys(names, Kind.NAME)
    of_csv = detector.in_value("id,name\n" + "".join(f"{number},{name}\n" for number, name in enumerate(names)))
    assert kinds(of_csv) == dict.fromkeys(names, Kind.NAME)


@pytest.mark.parametrize("name", ["who", "c1", "Gast", "x"])
def test_a_column_is_one_of_names_if_three_of_ten_values_are_persons(detector: Detector, name: str) -> None:
    people = ["Olga Baker", "Xiuying Qrst", "Jonas Lee", "Ann O'Neil", "Bo"]
    assert kinds(detector.in_value([{name: it, "n": 1} for it in people])) == dict.fromkeys(people[:4], Kind.NAME)
    table = f"{name},n\n" + "".join(f"{it},1\n" for it in people)
    assert kinds(detector.in_value(table)) == dict.fromkeys(people[:4], Kind.NAME)
    things = [*(f"Desk Lamp {it}" for it in "abcdefg"), "Virginia Office", "Paris", "Growth Team", "Jonas Lee"]
    assert kinds(detector.in_value([{name: it} for it in things])) == {}


def test_fields_of_the_configuration_have_their_kind() -> None:
    names: dict[str, tuple[str, ...]] = {Kind.BIRTH_DATE: ("d",), Kind.NAME: ("Who",), "employee": ("nr",)}
    fields = DetectionFields(fields=names, patterns={"employee": "E-[0-9]+"})
    value = [{"who": "Bo", "d": "14/3", "nr": 123456, "x": "Bo"}]
    found = {"Bo": Kind.NAME, "14/3": Kind.BIRTH_DATE, "123456": "employee"}
    assert kinds(Detector(fields).in_value(value)) == found
    assert len(Detector(fields).in_value(value).found) == 3
    assert kinds(Detector(fields).in_value("who,d\nBo,14/3\n")) == {"Bo": Kind.NAME, "14/3": Kind.BIRTH_DATE}
    assert kinds(Detector().in_value(value)) == {}, "the control"


def test_one_person_makes_no_persons_of_the_things_beside_it(detector: Detector) -> None:
    names = ["Mobile App", "Olga Baker", "Growth Team", "Website"]
    assert kinds(detector.in_value([{"name": name} for name in names])) == {"Olga Baker": Kind.NAME}
    people: list[Any] = [{"name": "Olga Baker"}, {"name": "Jonas Lee"}]
    assert "Desk Lamp" not in kinds(detector.in_value({"people": people, "products": [{"name": "Desk Lamp"}]}))


def test_a_table_in_a_text_has_the_fields_of_its_header(detector: Detector) -> None:
    table = 'name,email,birthday,sku\n"Roe, Jane",j@x.org,2.3.1980,AB123456\nBob,b@x.org,1.2.1990,AB123457\n'
    found = kinds(detector.in_value({"text": table}))
    assert {kind for value, kind in found.items() if "Roe" in value} == {Kind.NAME}
    assert found["2.3.1980"] == found["1.2.1990"] == Kind.BIRTH_DATE
    assert not {value for value in found if value.startswith("AB")}


def test_a_finding_has_its_place(detector: Detector) -> None:
    value = {"rows": [{"note": "x"}, {"note": "to j@x.org"}], "k@x.org": 1, "card": 4111111111111111}
    (note, key, card) = sorted(detector.in_value(value).found, key=lambda one: len(one.place), reverse=True)
    assert (note.place, note.start, note.end) == (("rows", 1, "note"), 3, 10)
    assert {(key.place, key.is_key), (card.place, card.is_key)} == {(("k@x.org",), True), (("card",), False)}


def test_of_findings_that_overlap_the_surer_one_stays_and_of_equally_sure_ones_the_longer(detector: Detector) -> None:
    assert kinds(detector.in_value("password: jane@example.org.")) == {"jane@example.org": Kind.EMAIL}
    own = Detector(DetectionFields(patterns={"short": r"AB-\d{4}", "long": r"AB-\d{4}-\d\d"}))
    assert kinds(own.in_value("AB-1234-56")) == {"AB-1234-56": "long"}
    assert kinds(own.in_value("AB-1234 AB-1234-56 AB-12")) == {"AB-1234": "short", "AB-1234-56": "long"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (
            {"address": "4 The Green, Oxford, +49 30 901820"},
            {"4 The Green, Oxford": Kind.ADDRESS, "+49 30 901820": Kind.PHONE},
        ),
        (
            {"address": "+49 30 901820, 4 The Green (ann@example.org), Oxford"},
            {
                "+49 30 901820": Kind.PHONE,
                "4 The Green": Kind.ADDRESS,
                "ann@example.org": Kind.EMAIL,
                "Oxford": Kind.ADDRESS,
            },
        ),
        ({"password": "Xk9-kd:jane@example.org"}, {"Xk9-kd": Kind.CREDENTIAL, "jane@example.org": Kind.EMAIL}),
        ({"address": "ann@example.org"}, {"ann@example.org": Kind.EMAIL}),
    ],
)
def test_the_rest_of_a_value_around_another_one_is_found_too(
    detector: Detector, value: Any, found: dict[str, Kind]
) -> None:
    assert kinds(detector.in_value(value)) == found


@pytest.mark.parametrize("key", ["RSSMRA85T10A562S", "X1234567L", "DE89370400440532013000", "ann@example.org"])
def test_a_short_key_may_be_the_number_of_a_person(detector: Detector, key: str) -> None:
    found = detector.in_value({key: {"balance": 12}, "order_id": 4, "line2": 1}).found
    assert [(it.value, it.is_key) for it in found] == [(key, True)]


def test_thresholds_are_per_kind_and_allowed_values_are_no_findings() -> None:
    text = "j@x.org from 84.12.99.44, J@X.Partner.example"
    settings = DetectionFields(thresholds={Kind.IP: 1.1}, allow=("*@x.partner.example", "none@x.org"))
    assert kinds(Detector().in_value(text)).keys() == {"j@x.org", "84.12.99.44", "J@X.Partner.example"}, "the control"
    assert kinds(Detector(settings).in_value(text)) == {"j@x.org": Kind.EMAIL}


def test_a_value_beyond_the_bounds_is_incomplete(detector: Detector) -> None:
    deep: Any = "j@x.org"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert not detector.in_value(deep).is_complete
    assert not detector.in_value("a@b.cc " * (MAX_FINDINGS + 1)).is_complete
    assert detector.in_value([["j@x.org"]]).is_complete, "the control"


async def test_a_large_value_is_searched_in_a_thread(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def searched(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return original(*arguments)

    original = walk.searched_value
    monkeypatch.setattr(detector_module, "searched_value", searched)
    await detector.find(["j@x.org"])
    await detector.find(["j@x.org " * 15_000])
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


HOSTILE = (
    "1", "1 ", "1-", "(1", "+1", "1.1", "a.", "a@", "a@a.", ":", "::", "a:", "=", "a=", "DE89 ", "AA00AA00", "AA 11",
    "12345678A ", "sk-a", "eyJa.", "-----BEGIN A PRIVATE KEY-----", "a://a:", "http://a:b", "12 Aa ", "Via Aa ",
    "1 rue ", "Straße 1", "a,b\n", '"', '","', "a|b\n", "\x00", "\ud800", "name: Aa ", "4111 ", "４", "²", "born 1.1.",
    "Ann <a@b.cc> ", "Ann <b>", "%40", "&#64;", "&amp", "[",
)  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear_in_hostile_text(detector: Detector, unit: str) -> None:
    """Eight times the text takes at most some thirty times as long; quadratic work takes sixty-four times."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.thread_time()
        detector.in_value(text)
        return time.thread_time() - began

    # Quadratic work is slow each time, a busy machine at times.
    assert any(seconds(64_000) < max(0.05, 30 * seconds(8_000)) for _ in range(5))


def test_libraries_are_imported_when_the_first_number_is_met() -> None:
    script = (
        "import sys\n"
        "from codemode_server.features.privacy.detector import Detector\n"
        "Detector().in_value('Write to j@x.org')\n"
        "before = {'phonenumbers', 'stdnum'} & set(sys.modules)\n"
        "Detector().in_value('+49 30 901820, DE89370400440532013000')\n"
        "print(len(before), len({'phonenumbers', 'stdnum'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "2"]
