"""Recognises numbers that identify a person: cards, bank accounts, phones, and numbers of states.

A checksum alone says little: of random numbers a tenth fulfils Luhn's, an eleventh that of a Dutch or British one. So
the way it is written, and the words before it, decide together with the checksum. `phonenumbers` and `stdnum` are
imported when the first number is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from typing import Any

from codemode_server.features.privacy.fields import Against, Evidence
from codemode_server.features.privacy.findings import REGIONS, Kind

_RUN = re.compile(
    r"[+(0-9](?<![^\W_].)(?<!\d\..)(?:(?<=\d)|\(?\d)(?:[ \u00a0\u202f./()-]{0,3}\d){6,29}(?![^\W_])", re.DOTALL
)
"""Digits and their separators: one or several numbers."""
_GROUP = re.compile(r"[^ \u00a0\u202f]+")
_CODE = re.compile(
    r"(?<![^\W_])(?=[A-Za-z]{2}[0-9]{2}|[A-Z]{6}[0-9LMNP-V]{2}[A-Z]|[A-Z]{2} ?[0-9A-Z]?[0-9]|[XYZ]-?[0-9]{7}"
    r"|[0-9]{8}-?[A-Z])"
)
"""The beginning of an account, a tax number or an identity card with letters."""
_MIN_DIGITS, _MAX_DIGITS, _MIN_CARD_DIGITS = 7, 19, 13
_MAX_GROUPS = 8
"""Groups between spaces that one number has at most."""
_MAX_IBAN = 64
"""Characters of an account number with separators."""
_MAX_LOOKUPS = 3_000
"""Different phone numbers of one search that are looked up in the numbering plans; more are taken for phone numbers."""
_BOUNDED = re.compile(r"[+(.-]")
"""Marks that hold a number together."""
_DATE = re.compile(
    r"(?:19|20)\d\d[-./](?:0?[1-9]|1[0-2])[-./](?:0?[1-9]|[12]\d|3[01])\b|(?:0?[1-9]|[12]\d|3[01])[-./](?:0?[1-9]|1[0-2])[-./](?:19|20)\d\d\b"
)
_CARD = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}")
_CARD_KINDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)
_WRITTEN: tuple[tuple[re.Pattern[str], str, float], ...] = (
    (re.compile(r"\d{3}-\d\d-\d{4}"), "us.ssn", 0.85),
    (re.compile(r"\d{3}\.\d{3}\.\d{3}-\d\d"), "br.cpf", 0.95),
    (re.compile(r"\d\d \d{3} \d{3} \d{3}"), "de.idnr", 0.85),
    (re.compile(r"[2-9]\d{3} \d{4} \d{4}"), "in_.aadhaar", 0.7),
    (re.compile(r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d\d"), "ch.ssn", 0.9),
    (re.compile(r"\d\d\.\d{3}\.\d{3}/\d{4}-\d\d"), "br.cnpj", 0.95),
    (re.compile(r"[12] \d\d \d\d \d\d \d{3} \d{3} \d\d"), "fr.nir", 0.95),
    (re.compile(r"[12]\d{14}"), "fr.nir", 0.85),
)
"""Written in the manner of one country, so that no word has to say what it is."""
_NAMED: dict[int, str] = {
    9: "us.ssn nl.bsn pt.nif us.ein de.vat fr.siren",
    10: "gb.nhs gb.utr de.stnr se.personnummer dk.cpr cz.rc",
    11: "de.idnr br.cpf it.iva pl.pesel no.fodselsnummer be.nn de.stnr tr.tckimlik",
    12: "in_.aadhaar",
    13: "ch.ssn de.stnr fr.nif za.idnr",
    14: "br.cnpj fr.siret",
    15: "fr.nir",
}
"""By the number of digits: those that a word has to announce, since a checksum of one digit is fulfilled by chance."""
_PHONE_MANNER = re.compile(
    r"\(0?\d{1,4}\)[ -]?\d[\d ./-]*|0\d{1,4}[ /-]\d[\d ./-]*|0\d(?:[ .-]\d\d){4}|\d{3}-\d{3}-\d{4}"
    r"|\(\d{3}\) \d{3}-\d{4}"
)
"""A national number in a manner in which hardly anything else is written."""
_CODES: tuple[tuple[re.Pattern[str], str, float], ...] = (
    (re.compile(r"[A-Z]{6}[0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z](?!\w)"), "it.codicefiscale", 0.95),
    (re.compile(r"[0-9]{8}-?[A-Z](?!\w)"), "es.dni", 0.8),
    (re.compile(r"[XYZ]-?[0-9]{7}-?[A-Z](?!\w)"), "es.nie", 0.8),
    (re.compile(r"(?![DFIQUV])[A-Z](?![DFIQUVO])[A-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?!\w)"), "", 0.75),
    (re.compile(r"[A-Z]{2} ?(?=[A-Z]?[0-9])[0-9A-Z]{8,12}(?!\w)"), "eu.vat", 0.75),
)
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}")
Match = tuple[int, int, str, float]
"""Start, end, kind and confidence."""
EvidenceAt = Callable[[int], Evidence]
"""Gives the evidence for or against a number at a position."""


def numbers_in(text: str, evidence: EvidenceAt) -> Iterator[Match]:
    looked_up: set[str] = set()

    def kind_of(number: str, says: Evidence, is_part: bool) -> tuple[str, float]:
        may_be_phone = says is Kind.PHONE or number[0] in "+(0" or "-" in number
        if may_be_phone and len(looked_up) < _MAX_LOOKUPS:
            looked_up.add(number)
        return classify(number, says, is_part, is_checked=not may_be_phone or number in looked_up)

    for run in _RUN.finditer(text):
        yield from _in_run(run, evidence, kind_of)
    for code in _CODE.finditer(text):
        at = code.start()
        if found := _code_at(text, at, evidence):
            yield at, *found


def _in_run(
    run: re.Match[str], evidence: EvidenceAt, kind_of: Callable[[str, Evidence, bool], tuple[str, float]]
) -> Iterator[Match]:
    """The numbers in a run of digits: of several groups, the longest that are a number together."""
    groups = [(run.start() + it.start(), run.start() + it.end()) for it in _GROUP.finditer(run[0])]
    text, first = run.string, 0
    digits = [0, *accumulate(sum(map(str.isdigit, text[start:end])) for start, end in groups)]
    first_says = evidence(run.start())
    is_bare = first_says is None and not _BOUNDED.search(run[0])
    while first < len(groups):
        start = groups[first][0]
        says = evidence(start) if first and first_says else first_says
        for last in range(min(len(groups), first + _MAX_GROUPS) - 1, first - 1, -1):
            number = text[start : groups[last][1]]
            is_part = first > 0 or last < len(groups) - 1
            least = _MIN_CARD_DIGITS if is_bare and is_part else _MIN_DIGITS
            is_possible = least <= digits[last + 1] - digits[first] <= _MAX_DIGITS
            kind, confidence = kind_of(number, says, is_part) if is_possible else ("", 0.0)
            if confidence:
                yield start, groups[last][1], kind, confidence
                first = last
                break
        first += 1


@lru_cache(8192)
def classify(text: str, says: Evidence, is_part: bool = False, *, is_checked: bool = True) -> tuple[str, float]:
    """Kind and confidence of one number as it is written; a confidence of 0 if it is none. `is_part`: other digits
    stand beside it, so that digits and spaces alone do not tell where it begins and ends."""
    digits = re.sub(r"\D+", "", text)
    if not _MIN_DIGITS <= len(digits) <= _MAX_DIGITS or _DATE.match(text):
        return "", 0.0
    if is_part and says in (None, Against.NUMBER) and not _BOUNDED.search(text) and len(digits) < _MIN_CARD_DIGITS:
        return "", 0.0
    return max(
        (Kind.CARD, _card(text, digits, says)),
        (Kind.NATIONAL_ID, _national(text, digits, says)),
        (Kind.PHONE, _phone(text, digits, says, is_checked=is_checked)),
        key=lambda it: it[1],
    )


def _card(text: str, digits: str, says: Evidence) -> float:
    if len(digits) < _MIN_CARD_DIGITS or not _CARD.fullmatch(text) or not _CARD_KINDS.fullmatch(digits):
        return 0.0
    if not _validator("luhn")(digits):
        return 0.0
    if says is Kind.CARD:
        return 0.99
    if isinstance(says, Against):
        return 0.4 if text.isdigit() else 0.55
    return 0.8 if text.isdigit() else 0.95


def _national(text: str, digits: str, says: Evidence) -> float:
    if says is not Against.NUMBER or not text.isdigit():
        for written, module, confidence in _WRITTEN:
            if written.fullmatch(text) and _validator(module)(text):
                return 0.97 if says is Kind.NATIONAL_ID else confidence
    if says is Kind.NATIONAL_ID:
        return 0.9 if any(_validator(module)(text) for module in _NAMED.get(len(digits), "").split()) else 0.0
    return 0.0


@lru_cache(256)
def _validator(module: str) -> Callable[[str], bool]:
    check: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return check


def _phone(text: str, digits: str, says: Evidence, *, is_checked: bool) -> float:
    if len(digits) > 15:
        return 0.0
    if text.startswith(("+", "00", "(+")):
        is_phone = not is_checked or _is_phone(text if not text.startswith("00") else f"+{text[2:]}", None)
        return (0.97 if says is not Against.NUMBER else 0.85) if is_phone else 0.0
    if says is Kind.PHONE:
        is_phone = not is_checked or any(_is_phone(text, region) for region in REGIONS)
        is_phone = is_phone or (len(digits) > 9 and text.isdigit() and _is_phone(f"+{digits}", None))
        return 0.9 if is_phone else 0.0
    if says is not None or not _PHONE_MANNER.fullmatch(text):
        return 0.0
    return 0.7 if not is_checked or any(_is_phone(text, region) for region in REGIONS) else 0.0


def _is_phone(text: str, region: str | None) -> bool:
    phonenumbers: Any = import_module("phonenumbers")
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, region)))
    except phonenumbers.NumberParseException:
        return False


def _code_at(text: str, at: int, evidence: EvidenceAt) -> tuple[int, str, float] | None:
    """The end, kind and confidence of the account, tax number or identity card that begins here."""
    if (account := _IBAN.match(text[at : at + _MAX_IBAN].upper())) and (end := _iban_end(account[0])):
        return at + end, Kind.IBAN, 0.97
    for pattern, module, confidence in _CODES:
        found = pattern.match(text, at)
        if found and (not module or _validator(module)(found[0])):
            says = evidence(at)
            if says is Kind.NATIONAL_ID:
                confidence = 0.97
            elif says is Against.NUMBER:
                confidence -= 0.25
            return found.end(), Kind.NATIONAL_ID, confidence
    return None


def _iban_end(text: str) -> int:
    """Where an account number at the beginning ends; letters and digits of other words may follow it."""
    end = count = 0
    length = _iban_length(text[:2])
    while count < length and end < len(text):
        count += text[end].isalnum()
        end += 1
    is_whole = count == length and not text[end : end + 1].isalnum()
    return end if length and is_whole and _validator("iban")(text[:end]) else 0


@lru_cache(256)
def _iban_length(country: str) -> int:
    """Characters of the account numbers of a country; 0 if it has none."""
    parts: Any = import_module("stdnum.numdb").get("iban").info(country)
    lengths = re.findall(r"(\d+)!?[anc]", parts[0][1].get("bban", ""))
    return 4 + sum(map(int, lengths)) if lengths else 0
