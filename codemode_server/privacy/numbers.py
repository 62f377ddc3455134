"""Recognises numbers that identify a person: cards, bank accounts, phones, and numbers of states.

A checksum alone says little: of random numbers a tenth fulfils Luhn's, an eleventh that of a Dutch or British one. So
the way it is written, and the words before it, decide together with the checksum. `phonenumbers` and `stdnum` are
imported when the first number is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate

from codemode_server.privacy.evidence import Against
from codemode_server.privacy.findings import Kind

RUN = re.compile(
    r"[+(0-9](?<![^\W_].)(?<!\d\..)(?:(?<=\d)|\(?\d)(?:[ \u00a0\u202f./()-]{0,3}\d){6,29}(?![^\W_])", re.DOTALL
)
"""Digits with what separates them: one or several numbers."""
_CODE_OF_LETTERS = re.compile(
    r"[A-Z](?<![^\W_].)(?:[A-Z][0-9]{2}[ -]?[A-Za-z0-9]{3}|[A-Z]{5}[0-9LMNP-V]{2}[A-Z]|[A-Z] ?[0-9A-Z]{0,2}[0-9]{3}"
    r"|[A-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]|(?<=[XYZ])-?[0-9]{7})"
)
_CODE_OF_DIGITS = re.compile(
    r"[0-9](?:(?<=[A-Za-z][a-z].)[0-9][ -]?[A-Za-z0-9]{3}|(?<=[a-z][A-Z].)[0-9][ -]?[A-Za-z0-9]{3}"
    r"|(?<![^\W_].)[0-9]{7}-?[A-Z](?![^\W_]))"
)
"""How an account, a tax number or an identity card with letters may begin. Patterns whose first character is one of few
are searched in a fraction of the time of others."""
MAX_CODE_CHARACTERS = 48
_DIGITS = re.compile(r"\D+")
_SEPARATORS = re.compile(r"[ \u00a0\u202f]")
_MIN_DIGITS = 7
_MAX_DIGITS = 19
_MIN_CARD_DIGITS = 13
_MAX_GROUPS = 8
"""Groups between spaces that one number has at most."""
_MAX_CHECKS, _MAX_ANNOUNCED_CHECKS = 3_000, 1_000
"""Different numbers of one search; fewer if a plus, or a word before them, says that they are phone numbers."""
_BOUNDED = re.compile(r"[+(.-]")
"""What holds a number together."""
_DATE = re.compile(
    r"(?:19|20)\d\d[-./](?:0?[1-9]|1[0-2])[-./](?:0?[1-9]|[12]\d|3[01])\b|(?:0?[1-9]|[12]\d|3[01])[-./](?:0?[1-9]|1[0-2])[-./](?:19|20)\d\d\b"
)
_CARD = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}")
_CARD_KINDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)

Evidence = Kind | Against | None
Match = tuple[int, int, str, float]
"""Start, end, kind and confidence."""


class Checks:
    """Bounds the numbers of one search that are looked up in the numbering plans of countries, which takes long. What
    is beyond the bound is taken for a phone number if it may be one."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def allow(self, text: str, says: Evidence) -> bool:
        is_announced = says is Kind.PHONE or text.startswith(("+", "(+"))
        may_be_phone = is_announced or (says is None and (text[0] in "(0" or "-" in text))
        if not may_be_phone or text in self._texts or not (is_announced or _PHONE_MANNER.fullmatch(text)):
            return True
        if len(self._texts) >= (_MAX_ANNOUNCED_CHECKS if is_announced else _MAX_CHECKS):
            return False
        self._texts.add(text)
        return True


def numbers_in(
    run: str, evidence: Callable[[int], Evidence], regions: tuple[str, ...], checks: Checks
) -> Iterator[Match]:
    """The numbers in a run of digits; `evidence` says what stands before a position of it."""
    groups = _groups(run)
    if len(groups) == 1:
        start, end = groups[0]
        text = run[start:end]
        if _DATE.match(text) or _says_nothing(text, says := evidence(start)):
            return
        kind, confidence = classify(text, says, regions, is_checked=checks.allow(text, says))
        if confidence:
            yield start, end, kind, confidence
        return
    before = [0, *accumulate(sum(map(str.isdigit, run[start:end])) for start, end in groups)]
    first_says = evidence(groups[0][0])
    least_of_part = _MIN_CARD_DIGITS if first_says is None and not _BOUNDED.search(run) else _MIN_DIGITS
    first = 0
    while first < len(groups):
        start = groups[first][0]
        if before[-1] - before[first] < _MIN_DIGITS:
            return
        end_of_most = min(len(groups), first + _MAX_GROUPS)
        if first and before[end_of_most] - before[first] < least_of_part:
            first += 1
            continue
        says = evidence(start) if first and first_says else first_says
        best: tuple[str, float, int] = ("", 0.0, first)
        for last in range(end_of_most - 1, first - 1, -1):
            is_part = first > 0 or last < len(groups) - 1
            least = least_of_part if is_part else _MIN_DIGITS
            if not least <= before[last + 1] - before[first] <= _MAX_DIGITS:
                continue
            text = run[start : groups[last][1]].strip()
            if _says_nothing(text, says):
                continue
            kind, confidence = classify(text, says, regions, is_part, is_checked=checks.allow(text, says))
            if confidence > best[1]:
                best = (kind, confidence, last)
                if confidence >= _most(run[start], says):
                    break
        if best[1]:
            first = best[2]
            yield start, groups[first][1], best[0], best[1]
        first += 1


def _most(first: str, says: Evidence) -> float:
    """The highest confidence that a number with this first character can have."""
    if says is Kind.CARD:
        return 0.99
    return 0.95 if says is None and "1" <= first <= "9" else 0.97


def _says_nothing(text: str, says: Evidence) -> bool:
    """Whether a number is too short to be one of those that need no word before them, and has none. `classify` would
    find that out more slowly."""
    is_plain = len(text) < _MIN_CARD_DIGITS and text.isdecimal() and not text.startswith("00")
    return is_plain and says is not Kind.PHONE and says is not Kind.NATIONAL_ID


def _groups(run: str) -> list[tuple[int, int]]:
    if not _SEPARATORS.search(run):
        return [(0, len(run))]
    found = []
    start = 0
    for space in _SEPARATORS.finditer(run):
        if space.start() > start:
            found.append((start, space.start()))
        start = space.end()
    found.append((start, len(run)))
    return found


@lru_cache(8192)
def classify(
    text: str, says: Evidence, regions: tuple[str, ...], is_part: bool = False, *, is_checked: bool = True
) -> tuple[str, float]:
    """Kind and confidence of one number as it is written; a confidence of 0 if it is none.

    `is_part`: other digits stand beside it, so that digits and spaces alone do not tell where it begins and ends.
    """
    digits = _DIGITS.sub("", text)
    if not _MIN_DIGITS <= len(digits) <= _MAX_DIGITS or _DATE.match(text):
        return "", 0.0
    if is_part and says in (None, Against.NUMBER) and not _BOUNDED.search(text) and len(digits) < _MIN_CARD_DIGITS:
        return "", 0.0
    best: tuple[str, float] = ("", 0.0)
    for kind, confidence in (
        (Kind.CARD, _card(text, digits, says)),
        (Kind.NATIONAL_ID, _national(text, digits, says)),
        (Kind.PHONE, _phone(text, digits, says, regions, is_checked=is_checked)),
    ):
        if confidence > best[1]:
            best = (kind, confidence)
    return best


def _card(text: str, digits: str, says: Evidence) -> float:
    if (
        len(digits) < _MIN_CARD_DIGITS
        or not _CARD.fullmatch(text)
        or not _CARD_KINDS.fullmatch(digits)
        or not _luhn(digits)
    ):
        return 0.0
    if says is Kind.CARD:
        return 0.99
    if says is None or isinstance(says, Kind):
        return 0.8 if text.isdigit() else 0.95
    return 0.4 if text.isdigit() else 0.55


def _luhn(digits: str) -> bool:
    odd, even = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, odd)) + sum((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)[int(digit)] for digit in even)) % 10 == 0


_WRITTEN: dict[int, tuple[tuple[re.Pattern[str], str, float], ...]] = {
    9: ((re.compile(r"\d{3}-\d\d-\d{4}"), "us.ssn", 0.85),),
    11: (
        (re.compile(r"\d{3}\.\d{3}\.\d{3}-\d\d"), "br.cpf", 0.95),
        (re.compile(r"\d\d \d{3} \d{3} \d{3}"), "de.idnr", 0.85),
    ),
    12: ((re.compile(r"[2-9]\d{3} \d{4} \d{4}"), "in_.aadhaar", 0.7),),
    13: ((re.compile(r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d\d"), "ch.ssn", 0.9),),
    14: ((re.compile(r"\d\d\.\d{3}\.\d{3}/\d{4}-\d\d"), "br.cnpj", 0.95),),
    15: (
        (re.compile(r"[12] \d\d \d\d \d\d \d{3} \d{3} \d\d"), "fr.nir", 0.95),
        (re.compile(r"[12]\d{14}"), "fr.nir", 0.85),
    ),
}
"""By the number of digits: written in the manner of one country, so that no word has to say what it is."""
_NAMED: dict[int, tuple[str, ...]] = {
    9: ("us.ssn", "nl.bsn", "pt.nif", "us.ein", "de.vat", "fr.siren"),
    10: ("gb.nhs", "gb.utr", "de.stnr", "se.personnummer", "dk.cpr", "cz.rc"),
    11: ("de.idnr", "br.cpf", "it.iva", "pl.pesel", "no.fodselsnummer", "be.nn", "de.stnr", "tr.tckimlik"),
    12: ("in_.aadhaar",),
    13: ("ch.ssn", "de.stnr", "fr.nif", "za.idnr"),
    14: ("br.cnpj", "fr.siret"),
    15: ("fr.nir",),
}
"""By the number of digits: those that a word has to announce, since a checksum of one digit is fulfilled by chance."""


def _national(text: str, digits: str, says: Evidence) -> float:
    if says is Against.NUMBER and not text.isdigit():
        says = None
    if says is not Against.NUMBER:
        for written, module, confidence in _WRITTEN.get(len(digits), ()):
            if written.fullmatch(text) and _is_valid(module, text):
                return 0.97 if says is Kind.NATIONAL_ID else confidence
    if says is Kind.NATIONAL_ID:
        return 0.9 if any(_is_valid(module, text) for module in _NAMED.get(len(digits), ())) else 0.0
    return 0.0


@lru_cache(256)
def _validator(module: str) -> Callable[[str], bool]:
    from importlib import import_module

    check: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return check


def _is_valid(module: str, text: str) -> bool:
    return _validator(module)(text)


_PHONE_MANNER = re.compile(
    r"\(0?\d{1,4}\)[ -]?\d[\d ./-]*|0\d{1,4}[ /-]\d[\d ./-]*|0\d(?:[ .-]\d\d){4}|\d{3}-\d{3}-\d{4}"
    r"|\(\d{3}\) \d{3}-\d{4}"
)
"""A national number in a manner in which hardly anything else is written."""


def _phone(text: str, digits: str, says: Evidence, regions: tuple[str, ...], *, is_checked: bool) -> float:
    if len(digits) > 15:
        return 0.0
    if text.startswith(("+", "00", "(+")):
        if not is_checked or _is_phone(text if not text.startswith("00") else f"+{text[2:]}", None):
            return 0.97 if says is not Against.NUMBER else 0.85
        return 0.0
    if says is Kind.PHONE:
        if (
            not is_checked
            or any(_is_phone(text, region) for region in regions)
            or (len(digits) > 9 and text.isdigit() and _is_phone(f"+{digits}", None))
        ):
            return 0.9
        return 0.0
    if says is not None or not _PHONE_MANNER.fullmatch(text):
        return 0.0
    return 0.7 if not is_checked or any(_is_phone(text, region) for region in regions) else 0.0


def _is_phone(text: str, region: str | None) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


_FISCAL_CODE = re.compile(r"[A-Z]{6}[0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]")
_SPANISH = re.compile(r"(?:[0-9]{8}|[XYZ]-?[0-9]{7})-?[A-Z]")
_BRITISH = re.compile(r"(?![DFIQUV])[A-Z](?![DFIQUVO])[A-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]")
_VAT = re.compile(r"(?:ATU|[A-Z]{2})[ ]?[0-9A-Z]{8,12}")
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FO FI GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE",
        31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def code_starts(text: str) -> Iterator[int]:
    """Where accounts, tax numbers or identity cards with letters may begin."""
    for found in _CODE_OF_LETTERS.finditer(text):
        yield found.start()
    for found in _CODE_OF_DIGITS.finditer(text):
        at = found.start()
        if not text[at - 1 : at].isalpha():
            yield at
        elif not text[max(0, at - 3) : at - 2].isalnum():
            yield at - 2


def codes_in(text: str, evidence: Callable[[], Evidence]) -> Match | None:
    """The account, tax number or identity card with which a text begins; `evidence` says what stands before it."""
    upper = text.upper()
    if upper[2:4].isdigit() and (end := _iban_end(upper)):
        return 0, end, Kind.IBAN, 0.97
    for pattern, module, confidence in (
        (_FISCAL_CODE, "it.codicefiscale", 0.95),
        (_SPANISH, "es.dni" if text[0].isdigit() else "es.nie", 0.8),
        (_BRITISH, "", 0.75),
        (_VAT, "eu.vat", 0.75),
    ):
        found = pattern.match(text)
        if found and not text[found.end() : found.end() + 1].isalnum() and (not module or _is_valid(module, found[0])):
            says = evidence()
            if says is Kind.NATIONAL_ID:
                confidence = 0.97
            elif says is Against.NUMBER:
                confidence -= 0.25
            return 0, found.end(), Kind.NATIONAL_ID, confidence
    return None


def _iban_end(text: str) -> int:
    """Where an account number at the beginning ends; 0 if there is none. What follows it may be of the same letters."""
    length = _IBAN_LENGTHS.get(text[:2], 0)
    end = taken = 0
    while taken < length and end < len(text):
        if "0" <= text[end] <= "9" or "A" <= text[end] <= "Z":
            taken += 1
        elif text[end] not in " -" or text[end - 1] in " -":
            return 0
        end += 1
    if not length or taken < length or text[end : end + 1].isalnum():
        return 0
    if not "02" <= text[2:4] <= "98":
        return 0
    return end if _is_iban(text[:end].replace(" ", "").replace("-", "")) else 0


@lru_cache(1024)
def _is_iban(text: str) -> bool:
    checked = "".join(str(int(letter, 36)) for letter in text[4:] + text[:4])
    return int(checked) % 97 == 1 and _is_valid("iban", text)
