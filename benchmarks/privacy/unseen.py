"""Makes 300 records in the result formats of published MCP servers, from lists of their own. The detector was not tuned
on them: a change that is made because of them needs new ones."""

from __future__ import annotations

import csv
import io
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import phonenumbers
from stdnum import iban, luhn

from benchmarks.privacy.scoring import Record

COUNT = 300
_GIVEN = (
    "Aaliyah Bogdan Chidinma Dagny Eero Fatoumata Gintaras Hyun-woo Ilse Jaroslav Katarzyna Lwazi Mehmet Ngozi Oskar"
    " Priyanka Quentin Rahel Siobhan Tariq Ulrike Viktoriya Wanjiru Xochitl Yusuf Zuzana Marta Peter Helen Samuel"
)
_FAMILY = (
    "Adeyemi Bergström Chaudhary Dlamini Eriksen Farkas Grabowska Haddad Ivanova Jankowski Kimura Lindqvist Mbeki"
    " Novák O'Sullivan Papadopoulos Quispe Rahman Sørensen Takahashi Ueda Villanueva Wójcik Xu Yilmaz Zelenka"
)
_HOSTS_LIST = "posteo.net fastmail.fm hey.example tuta.io kth.se uct.ac.za corp.example wp.pl naver.com seznam.cz"
_HOSTS = _HOSTS_LIST.split()
_STREETS = ("{} Church Lane", "Storgatan {}", "ul. Długa {}", "Rua do Carmo {}", "{} Elm Court", "Hauptstraße {}")
_TITLES = (
    "Checkout fails on retry",
    "Northern Lights",
    "Quarterly Report",
    "Grace Period",
    "May Release",
    "Add dark mode",
)


class Person(NamedTuple):
    name: str
    email: str
    phone: str
    born: str
    street: str
    account: str
    card: str
    ip: str


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def digits(self, count: int) -> str:
        return "".join(self.rng.choices(string.digits, k=count))

    def person(self) -> Person:
        given, family = self.rng.choice(_GIVEN.split()), self.rng.choice(_FAMILY.split())
        user = "".join(it for it in f"{given[0]}{family}".lower() if it.isascii() and it.isalpha())
        number = phonenumbers.example_number(self.rng.choice(("JP", "IN", "ZA", "SE", "PL", "TR", "NG", "MX")))
        assert number
        country, length = self.rng.choice((("PL", 24), ("SE", 20), ("CH", 17), ("TR", 22)))
        account = self.digits(length)
        body = self.rng.choice(("4", "52", "37")) + self.digits(14)
        body = body[:14] if body.startswith("37") else body[:15]
        return Person(
            f"{given} {family}",
            f"{user}{self.rng.randrange(99)}@{self.rng.choice(_HOSTS)}",
            phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL),
            f"{self.rng.randrange(1940, 2008)}-{self.rng.randrange(1, 13):02}-{self.rng.randrange(1, 29):02}",
            self.rng.choice(_STREETS).format(self.rng.randrange(1, 200)),
            country + iban.calc_check_digits(f"{country}00{account}") + account,
            body + luhn.calc_check_digit(body),
            f"{self.rng.choice((81, 93, 154, 197))}.{self.rng.randrange(30, 250)}.{self.rng.randrange(256)}.17",
        )


Labelled = tuple[Any, list[tuple[str, str]]]
Form = Callable[[_Maker, Person, Person], Labelled]


def _names(*people: Person) -> list[tuple[str, str]]:
    return [("name", it.name) for it in people]


def _emails(*people: Person) -> list[tuple[str, str]]:
    return [("email", it.email) for it in people]


def _sqlite(make: _Maker, one: Person, two: Person) -> Labelled:
    """The SQLite server answers with the repr of its rows."""
    rows = [{"id": at, "full_name": it.name, "email": it.email, "total": 12.5} for at, it in enumerate((one, two))]
    return str(rows), _names(one, two) + _emails(one, two)


def _clickhouse(make: _Maker, one: Person, two: Person) -> Labelled:
    rows = [[it.name, it.born, make.rng.choice(_TITLES)] for it in (one, two)]
    births = [("birth_date", it.born) for it in (one, two)]
    return {"columns": ["customer_name", "date_of_birth", "topic"], "rows": rows}, _names(one, two) + births


def _aliased(make: _Maker, one: Person, two: Person) -> Labelled:
    """A query gave the columns names that say nothing."""
    three = make.person()
    rows = [{"w": it.name, "n": make.rng.randrange(99), "t": "OPEN"} for it in (one, two, three)]
    return rows, _names(one, two, three)


def _github(make: _Maker, one: Person, two: Person) -> Labelled:
    user = {"login": "octo-dev", "id": int(make.digits(8)) + 1, "type": "User"}
    body = f"Reported by {one.email} from {one.ip}, see release 2.14.7"
    issue = {
        "number": 71,
        "title": make.rng.choice(_TITLES),
        "user": user,
        "body": body,
        "node_id": "I_kwDOA" + make.digits(9),
    }
    return {"total_count": 1, "items": [issue]}, [*_emails(one), ("ip", one.ip)]


def _commits(make: _Maker, one: Person, two: Person) -> Labelled:
    text = "".join(
        f"commit {make.rng.getrandbits(160):040x}\nAuthor: {it.name} <{it.email}>\n"
        f"Date:   Tue Mar 3 10:12:01 2026 +0100\n\n    {make.rng.choice(_TITLES)}\n\n"
        for it in (one, two)
    )
    return text, _names(one, two) + _emails(one, two)


def _slack(make: _Maker, one: Person, two: Person) -> Labelled:
    profile = {
        "real_name": one.name,
        "email": one.email,
        "phone": one.phone,
        "title": "Analyst",
        "status_text": "May Day",
    }
    member = {"id": "U0" + make.digits(8), "team_id": "T01", "name": "analyst", "profile": profile}
    return {"ok": True, "members": [member], "ts": "1767612345.000200"}, [
        *_names(one),
        *_emails(one),
        ("phone", one.phone),
    ]


def _notion(make: _Maker, one: Person, two: Person) -> Labelled:
    properties = {
        "Name": {"id": "title", "type": "title", "title": [{"plain_text": one.name}]},
        "E-mail": {"id": "a1", "type": "email", "email": one.email},
        "Birthday": {"id": "b2", "type": "date", "date": {"start": one.born, "end": None}},
        "Status": {"type": "status", "status": {"name": "In Progress"}},
    }
    return {"object": "page", "properties": properties}, [*_names(one), *_emails(one), ("birth_date", one.born)]


def _hubspot(make: _Maker, one: Person, two: Person) -> Labelled:
    given, family = one.name.split(" ")
    properties = {
        "firstname": given,
        "lastname": family,
        "email": one.email,
        "mobilephone": one.phone,
        "hs_object_id": "551",
    }
    truths = [("name", given), ("name", family), *_emails(one), ("phone", one.phone)]
    return {"results": [{"id": "551", "properties": properties, "archived": False}]}, truths


def _jira(make: _Maker, one: Person, two: Person) -> Labelled:
    fields = {
        "summary": make.rng.choice(_TITLES),
        "assignee": {"displayName": one.name, "emailAddress": one.email},
        "reporter": {"displayName": two.name, "emailAddress": two.email},
        "status": {"name": "To Do"},
        "project": {"key": "WEB", "name": "Grace Web"},
    }
    return json.dumps({"key": "WEB-12", "fields": fields}, indent=2), _names(one, two) + _emails(one, two)


def _places(make: _Maker, one: Person, two: Person) -> Labelled:
    place = {
        "name": "Victoria Bakery",
        "formatted_address": one.street,
        "formatted_phone_number": one.phone,
        "place_id": "ChIJ" + make.digits(12),
        "location": {"lat": 59.334591, "lng": 18.06324},
    }
    return place, [("address", one.street), ("phone", one.phone)]


def _twilio(make: _Maker, one: Person, two: Person) -> Labelled:
    message = {
        "sid": "SM" + make.digits(32),
        "to": one.phone,
        "from": two.phone,
        "body": f"Hi, pay to {one.account} today",
    }
    return {"messages": [message]}, [("phone", one.phone), ("phone", two.phone), ("iban", one.account)]


def _mail(make: _Maker, one: Person, two: Person) -> Labelled:
    text = (
        f"From: {one.name} <{one.email}>\nTo: {two.name} <{two.email}>\nSubject: {make.rng.choice(_TITLES)}\n\n"
        f"My new number is {one.phone}. The invoice 20260000{make.digits(8)} is open.\n"
    )
    return text, [*_names(one, two), *_emails(one, two), ("phone", one.phone)]


def _csv(make: _Maker, one: Person, two: Person) -> Labelled:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["Order", "Cardholder", "Card number", "Ship to street", "Product"])
    for it in (one, two):
        writer.writerow([make.digits(16), it.name, it.card, it.street, make.rng.choice(_TITLES)])
    truths = [(kind, value) for it in (one, two) for kind, value in (("card", it.card), ("address", it.street))]
    return {"content": out.getvalue()}, _names(one, two) + truths


def _memory(make: _Maker, one: Person, two: Person) -> Labelled:
    entity = {
        "name": one.name,
        "entityType": "person",
        "observations": [f"Born on {one.born}", f"Uses {one.email}", "Prefers tea"],
    }
    return {"entities": [entity], "relations": []}, [*_names(one), *_emails(one), ("birth_date", one.born)]


def _catalog(make: _Maker, one: Person, two: Person) -> Labelled:
    """Nothing personal."""
    rows = [
        {"sku": make.digits(13), "name": it, "version": "4.12.0.9", "rev": make.digits(10), "by": "build-bot"}
        for it in _TITLES
    ]
    return {"products": rows, "etag": make.digits(32), "updated": 1767612345}, []


_FORMS: tuple[Form, ...] = (
    *(_sqlite, _clickhouse, _aliased, _github, _commits, _slack, _notion, _hubspot, _jira, _places, _twilio, _mail),
    *(_csv, _memory, _catalog),
)


def unseen(seed: int = 27) -> Iterator[Record]:
    """The records, the same ones for the same seed."""
    make = _Maker(seed)
    for number in range(COUNT):
        form = _FORMS[number % len(_FORMS)]
        value, truths = form(make, make.person(), make.person())
        yield Record(value, tuple(truths))
