"""Personal data is found in escaped form too: the finding has the plain value, and the whole escaped place is replaced.

Each form has its control: the same text without personal data stays as it is.
"""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.escape_marks import marked_windows
from codemode_server.privacy.findings import DetectionSettings, Finding
from codemode_server.privacy.replacing import replaced
from tests.work import seconds_of

EMAIL = "carol.danvers@new-example.org"
PHONE = "+49 30 901820"


def found_in(value: Any) -> tuple[Finding, ...]:
    return Detector().in_value(value).found


def tokenized(value: Any) -> Any:
    found = found_in(value)
    return replaced(value, found, {(it.kind, it.value): f"<{it.kind.upper()}>" for it in found})


FORMS = {
    "a link": ("<a href='mailto:{}'>write</a>", EMAIL.replace("@", "%40")),
    "a query": ("https://example.com/?u={}&x=1", EMAIL.replace("@", "%40")),
    "a query, escaped twice": ("https://example.com/?u={}", EMAIL.replace("@", "%2540")),
    "a query, all escaped": ("see https://example.com/?u={} now", "".join(f"%{ord(one):02x}" for one in EMAIL)),
    "a query after an escape": ("https://example.com/?q=to%20{}%0Abye", EMAIL),
    "HTML, decimal": ("<p>Write to {}.</p>", EMAIL.replace("@", "&#64;")),
    "HTML, hexadecimal": ("<p>Write to {}.</p>", EMAIL.replace("@", "&#x40;")),
    "HTML, named": ("<p>Write to {}.</p>", EMAIL.replace("@", "&commat;").replace(".", "&period;")),
    "HTML, all escaped": ("<p>{}</p>", "".join(f"&#{ord(one)};" for one in EMAIL)),
    "HTML, twice": ("<p>Write to {}.</p>", EMAIL.replace("@", "&amp;#64;")),
    "HTML, with a hyphen to break at": ("<p>Write to {}.</p>", EMAIL.replace("vers", "&shy;vers")),
    "HTML, zero-width": ("<p>Write to {}.</p>", EMAIL.replace("@", "&#8203;@")),
    "JSON in a text": ('a line\n{{"to": "{}"}}\nand no JSON', EMAIL.replace("@", "\\u0040")),
    "JSON between signs": ("a line\n\\u003c{}\\u003e", EMAIL),
    "a string of code": ('to = "{}"', EMAIL.replace("@", "\\x40")),
    "quoted-printable": ("Mail to {} today", EMAIL.replace("@", "=40")),
    "quoted-printable, in lines": ("Mail to {} today", EMAIL.replace("@", "=\n@")),
    "quoted-printable, in lines of Windows": ("Mail to {} today", EMAIL.replace("@", "=\r\n@")),
    "quoted-printable of HTML": ('<a href=3D"mailto:{}">write</a>', EMAIL.replace("@", "%40")),
    "a wide @": ("Write to {}.", EMAIL.replace("@", "\uff20")),
    "a small @": ("Write to {}.", EMAIL.replace("@", "\ufe6b")),
    "a zero-width space": ("Write to {}.", EMAIL.replace("@", "\u200b@")),
    "zero-width characters": ("Write to {}.", EMAIL.replace("dan", "d\u200ca\u200dn\u2060\ufeff")),
    "a soft hyphen": ("Write to {}.", EMAIL.replace("danvers", "dan\u00advers")),
    "a space that does not break": ("Write to {}.", EMAIL.replace("@", "\u00a0@")),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_escaped_address_is_replaced_as_a_whole_by_its_plain_value(form: str) -> None:
    around, escaped = FORMS[form]
    text = around.format(escaped)
    assert [one.value for one in found_in({"text": text})] == [EMAIL]
    assert tokenized({"text": text}) == {"text": around.format("<EMAIL>")}
    assert tokenized({"text": f"{text}\n" * 3})["text"] == f"{around.format('<EMAIL>')}\n" * 3


@pytest.mark.parametrize("form", FORMS)
def test_the_same_text_without_an_address_stays(form: str) -> None:
    around, escaped = FORMS[form]
    control = around.format(escaped.replace("new-example", "new example").replace("%6e%65%77%2d", "%20"))
    control = control if control != around.format(escaped) else around.format("&#99;&#64;")
    control = control.replace(EMAIL, "nobody")
    assert tokenized({"text": control}) == {"text": control}


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        ("+49\u200b 30 901820", "phone", PHONE),
        ("call %2B49%2030%20901820 now", "phone", PHONE),
        ("<p>+49&nbsp;30&nbsp;901820</p>", "phone", PHONE),
        ("<p>call &#43;49 30 901820</p>", "phone", PHONE),
        ("DE89%203704%200044%200532%200130%2000", "iban", "DE89 3704 0044 0532 0130 00"),
        ("https://example.com/?iban=DE89370400440532\u200b013000", "iban", "DE89370400440532013000"),
        ("full_name=Carol%20Danvers&x=1", "name", "Carol Danvers"),
    ],
)
def test_other_kinds_are_found_in_escaped_form(value: str, kind: str, plain: str) -> None:
    assert [(one.kind, one.value) for one in found_in({"text": value})] == [(kind, plain)]


@pytest.mark.parametrize(
    ("name", "escaped", "plain"),
    [
        ("full_name", "Zo&euml; M&uuml;ller", "Zoë Müller"),
        ("full_name", "Carol Dan\u00advers", "Carol Danvers"),
        ("full_name", "Carol%20Danvers", "Carol Danvers"),
        ("address", "12%20Mill%20Lodge", "12 Mill Lodge"),
        ("birth_date", "1980%2D03%2D02", "1980-03-02"),
    ],
)
def test_what_a_field_tells_is_found_in_escaped_form(name: str, escaped: str, plain: str) -> None:
    assert [one.value for one in found_in({name: escaped})] == [plain]
    assert found_in({"title": escaped}) == ()


def test_an_escaped_key_of_an_object_is_replaced() -> None:
    assert tokenized({"carol.danvers%40new-example.org": 1, "a%20b": 2}) == {"<EMAIL>": 1, "a%20b": 2}


def test_a_cell_of_a_table_is_read_in_its_place() -> None:
    table = "full_name,link\nCarol Danvers,mailto:carol.danvers%40new-example.org\nBob%20Ray,none\n"
    assert tokenized({"csv": table})["csv"] == "full_name,link\n<NAME>,mailto:<EMAIL>\n<NAME>,none\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("postgres://app:pa%40ss99word@database/x", "pa%40ss99word"),
        ("EMAIL=ADA@EXAMPLE.ORG", "ADA@EXAMPLE.ORG"),
        ("USER=42carol@example.org", "42carol@example.org"),
        ("ID=40carol@example.org", "40carol@example.org"),
        ("EMAIL=\ncarol@example.org", "carol@example.org"),
        ("at C:\\mail\\nora@example.org", "nora@example.org"),
        ("Mail:\u00a0carol@example.org", "carol@example.org"),
        ("\ufeffcarol@example.org", "carol@example.org"),
    ],
)
def test_what_only_looks_like_an_escape_takes_nothing_from_a_value(text: str, value: str) -> None:
    found = found_in({"text": f"{text} and a%20b"})
    assert value in [one.value for one in found]
    assert value not in tokenized({"text": text})["text"]


def test_an_address_that_begins_in_a_password_is_replaced() -> None:
    """The escape ends the password and is taken for a part of the address, or the other way round: nothing is left."""
    text = "secret=abcdef77&shy;carol.danvers%40new-example.org"
    assert "danvers" not in tokenized({"text": text})["text"]
    assert tokenized({"text": "token=abcdef77&amp;x=1"}) == {"text": "token=<CREDENTIAL>&amp;x=1"}, "the control"


def test_addresses_with_an_escape_between_them_are_all_replaced() -> None:
    text = "to=carol%40new-example.org%26cc=dora@new-example.org"
    assert tokenized({"text": text}) == {"text": "to=<EMAIL>%26cc=<EMAIL>"}
    assert [one.value for one in found_in({"text": text})] == ["carol@new-example.org", "dora@new-example.org"]


def test_an_escaped_address_that_is_allowed_stays() -> None:
    text = "mailto:carol.danvers%40new-example.org"
    assert not Detector(DetectionSettings(allowed=("*@new-example.org",))).in_text(text).found


def test_a_text_without_a_mark_of_an_escape_is_searched_once() -> None:
    for text in ("100% & more \\ = x", "a&nbsp;b &amp; c", "été — ça", "x=1&copy=2", "\u200b\u200b", "a\u00a0b"):
        assert marked_windows(text) == []
    assert all(map(marked_windows, ("a%40b", "a\u200bb"))), "the control"


def test_only_what_is_beside_an_escape_is_read_twice() -> None:
    text = f"{'x ' * 50_000}{EMAIL.replace('@', '%40')}{' y' * 50_000}"
    assert [end - start for start, end in marked_windows(text)] == [300]
    assert tokenized({"text": text})["text"] == f"{'x ' * 50_000}<EMAIL>{' y' * 50_000}"


@pytest.mark.parametrize(
    "marks",
    ["%40", "%2540", "%C3", "&#64;", "&amp;#64;", "\\u0040", "\\x40", "=40", "a =\n", "a\u200b", "\uff20"],
)
def test_a_text_of_mere_marks_takes_a_few_times_as_long_as_an_ordinary_one(marks: str) -> None:
    """Two to three times by measurement; five with `=40`, four of them for what has no escape."""
    detector, length = Detector(), 200_000
    ordinary = ("The lamp in the hall does not go out after 12 hours: see the log.\n" * length)[:length]
    made = (marks * length)[:length]
    detector.in_text(f"{EMAIL} %40 {PHONE}")  # imports what these need
    assert seconds_of(lambda: detector.in_text(made)) <= 8 * seconds_of(lambda: detector.in_text(ordinary))
    assert EMAIL in [one.value for one in detector.in_text(f"{made}\n\n {EMAIL.replace('@', '%40')}").found], (
        "the control"
    )
