"""Where the name of a field stands elsewhere than above its value, it is evidence all the same: tables and pairs.

Each form has a control: the same values below columns that say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.findings import Kind

PERSON = {"Ann Lee": Kind.NAME, "1980-05-12": Kind.BIRTH_DATE}
FIELDS, NEUTRAL = ("Full name", "Date of birth"), ("Column A", "Column B")


def rows(first: str, second: str) -> list[list[str]]:
    return [[first, second], ["Ann Lee", "1980-05-12"], ["Bob Ray", "1981-05-12"]]


def text(first: str, second: str, separator: str = ",") -> str:
    return "".join(separator.join(row) + "\n" for row in rows(first, second))


def pair(name: str, value: Any, label: str = "name", holder: str = "value") -> dict[str, Any]:
    return {label: name, holder: value}


FORMS: dict[str, Callable[[str, str], Any]] = {
    "rows with a header": lambda a, b: {"range": "A1:B3", "values": rows(a, b)},
    "rows below a title": lambda a, b: [["Customers 2026"], [], *rows(a, b)],
    "one column": lambda a, b: [{"r": [[a], ["Ann Lee"]]}, {"r": [[b], ["1980-05-12"]]}],
    "rows without the last cell": lambda a, b: [[a, b, "Note"], ["Ann Lee", "1980-05-12"]],
    "rows beside columns": lambda a, b: {"columns": [a, b], "rows": rows(a, b)[1:]},
    "rows beside fields": lambda a, b: {"fields": [{"name": a}, {"name": b}], "data": {"rows": rows(a, b)[1:]}},
    "cells beside columns": lambda a, b: {
        "columns": [{"title": a}, {"title": b}],
        "rows": [{"id": 1, "cells": [{"value": "Ann Lee"}, {"value": "1980-05-12"}]}],
    },
    "columns": lambda a, b: {a: ["Ann Lee", "Bob Ray"], b: ["1980-05-12", "1981-05-12"]},
    "CSV": lambda a, b: text(a, b),
    "CSV with a byte order mark": lambda a, b: "\ufeff" + text(a, b),
    "CSV without a first header": lambda a, b: f",{a},{b}\n0,Ann Lee,1980-05-12\n1,Bob Ray,1981-05-12\n",
    "CSV below a title": lambda a, b: f"Customers of 2026\n\n{text(a, b, ';')}",
    "table of psql": lambda a, b: f" {a} |   {b} \n----+--------\n Ann Lee | 1980-05-12\n(1 row)",
    "table of MySQL": lambda a, b: f"+---+---+\n| {a} | {b} |\n+---+---+\n| Ann Lee | 1980-05-12 |\n+---+---+\n",
    "table of DuckDB": lambda a, b: f"┌──┬──┐\n│ {a} │ {b} │\n├──┼──┤\n│ Ann Lee │ 1980-05-12 │\n└──┴──┘",
    "table of one row in Markdown": lambda a, b: f"| {a} | {b} |\n|:--|---|\n| Ann Lee | 1980-05-12 |",
    "pairs": lambda a, b: [pair(a, "Ann Lee"), pair(b, "1980-05-12")],
    "answers of a form": lambda a, b: [
        pair(a, "Ann Lee", "question", "answer"),
        pair(b, "1980-05-12", "question", "answer"),
    ],
    "fields with values": lambda a, b: {"properties": {a: {"value": "Ann Lee"}, b: {"value": "1980-05-12"}}},
    "fields with texts": lambda a, b: {
        "properties": {
            a: {"id": "t", "type": "title", "title": [{"text": {"content": "Ann Lee"}}]},
            b: {"type": "rich_text", "rich_text": [{"plain_text": "1980-05-12"}]},
        }
    },
    "JSON in a text": lambda a, b: {"body": json.dumps({a: "Ann Lee", b: "1980-05-12"})},
    "JSON in JSON in a text": lambda a, b: {
        "body": json.dumps({"payload": json.dumps({a: "Ann Lee", b: "1980-05-12"})})
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_the_names_of_fields_are_evidence_in_every_form(form: str) -> None:
    found = {one.value: one.kind for one in Detector().in_value(FORMS[form](*FIELDS)).found}
    assert found.items() >= PERSON.items()
    assert not set(found) & set(FIELDS)


@pytest.mark.parametrize("form", FORMS)
def test_names_that_say_nothing_are_none(form: str) -> None:
    """The control. Persons in a column tell themselves."""
    assert not any(it.kind == Kind.BIRTH_DATE for it in Detector().in_value(FORMS[form](*NEUTRAL)).found)


@pytest.mark.parametrize(
    "value",
    [
        [["Name", "Email"], ["Desk Lamp", "-"]],
        {"name": "Desk Lamp", "value": "Blue Shade"},
        [["Order", "Amount"], ["4111111111111111", "12"]],
        {"name": "Order number", "value": "4111111111111111"},
    ],
)
def test_columns_and_labels_speak_against_a_value_too(value: Any) -> None:
    found = {one.value for one in Detector().in_value(value).found}
    assert not found & {"Blue Shade", "4111111111111111", "Email", "Order number"}
