"""Recognises what only the name of a field tells: names, dates of birth, passwords, and addresses without a domain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codemode_server.privacy.evidence import (
    PERSON_FIELDS,
    ends_telling_label,
    field_evidence,
    is_document_field,
    is_person_field,
    is_role_field,
    may_be_name_field,
)
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.given_names import is_person
from codemode_server.privacy.parts import Part, SearchedText
from codemode_server.privacy.renamed_fields import NO_RENAMES, Renamed, RenamedFields

_DATE = re.compile(
    r"\d{4}[-./]\d{1,2}[-./]\d{1,2}(?:[T ][\d:.]{5,15}(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}[-./ ]\d{1,2}[-./ ]\d{2,4}|\d{8}"
    r"|\d{1,2}\.? (?:de )?[^\W\d_]{3,12}\.?,? (?:de )?\d{4}|[^\W\d_]{3,12}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
)
_BORN_WORDS = ("born ", "geboren ")
"""Few, since each costs a search of the whole text."""
_BORN = re.compile(rf"(?<!\w)(?:{'|'.join(_BORN_WORDS)})(?:on |am )?(?:the )?(?P<date>{_DATE.pattern})(?!\w)")
_PERSON = re.compile(r"[^\W\d_][\w'’.\u00b7-]{0,40}(?:[ ,]{1,2}[^\W\d_(][\w'’.-]{0,40}\)?){0,5}")
_CAPITALISED = re.compile(r"[^\W\d_a-zß-öø-ÿ][\w.'’-]{0,40}(?: [^\W\d_a-zß-öø-ÿ][\w.'’-]{0,40}){1,3}")
_DOCUMENT = re.compile(r"(?=(?:\D*\d){4})[A-Z0-9](?:[ -]?[A-Z0-9]){4,19}")
_STREET = re.compile(r"(?=[^\n]*[^\W\d_]{2})(?=[^\n]*\d)(?:[^\n@]{5,200}|(?=[^\n]* )[^\n]{5,200})")
_LOCAL_EMAIL = re.compile(r"[\w.+-]{1,64}@[^\W\d_][\w-]{1,62}")
"""With a host that has no domain."""
_PASSWORD = re.compile(r"\S{6,200}")
_NO_NAMES_LIST = "none null unknown anonymous admin root test system default n/a true false yes no"
_NO_NAMES = frozenset(_NO_NAMES_LIST.split())
_NO_PASSWORDS_LIST = "none null required optional string hidden true false bearer password"
_NO_PASSWORDS = frozenset(_NO_PASSWORDS_LIST.split())
_ASSIGNS = re.compile(r"[:=](?<!\d\d:)")
"""After a label; between hours and minutes there is none."""
_VALUE = re.compile(
    r"(?:\*\*|__|(?:</?[a-z]{1,10}>){1,2})? {0,2}"  # the label may be in bold type
    r"(?P<value>\"[^\n\"\x00]{1,120}\"|'[^\n\x00]{1,120}?'(?=[\s,;}\])]|\Z)"
    r"|(?:(?!<(?:/|br|p>|div|span))[^\n\",;|&=\x00]){1,120}(?P<next>=)?)"
)
_NO_LABEL = re.compile(r"[^\w -]")
_NO_WORD = re.compile(r"[\W_]+")
_START = 3
_STARTS_OF_PERSON_FIELDS = frozenset(field[:_START] for field in PERSON_FIELDS)
"""Most values are told from headers by their first letters."""
_MAX_READ, _MIN_SHARE = 100, 0.3
"""Values of a column that are looked at, and the share of given names that makes all of them names of persons."""
_DIGIT = re.compile(r"\d")
_FEW_DIGITS = 6
"""So many digits of a date are more than its year."""
_MAX_LABEL_CHARACTERS = 44
_MAX_LABEL_WORDS = 4
_NUMBER_WORDS = frozenset({"number", "no", "no.", "nr", "nr.", "nummer", "id"})
Found = tuple[Kind, float] | None
"""What a value is, and with which confidence."""


def labelled_in(text: str, fields: RenamedFields = NO_RENAMES) -> Iterator[tuple[int, int, Kind, float]]:
    """Start, end, kind and confidence of each value after `Date of birth:` or `password=` in a text."""
    for sign in _ASSIGNS.finditer(text):
        at = sign.start()
        before = text[max(0, at - _MAX_LABEL_CHARACTERS) : at].rstrip(" \"'")
        last = before[before.rfind(" ") + 1 :]
        renamed = fields.of(last.strip("\"'{[(,")) if fields else None
        if renamed is None and not ends_telling_label(last) and not _ends_document_label(before, last):
            continue
        words = _NO_LABEL.split(before)[-1].split(" ")
        value = _VALUE.match(text, at + 1)
        if value:
            start, end = value.span("value")
            if value["next"]:  # the last word is the name of the next pair
                end = max(start, text.rfind(" ", start, end))
            start, end = stripped(text, start, end)
            if found := _surest(_by_label(words, text[start:end]), _by_renamed(renamed, text[start:end], False)):
                yield start, end, *found


def _ends_document_label(before: str, last: str) -> bool:
    return last.casefold() in _NUMBER_WORDS and is_document_field(" ".join(before.split(" ")[-_MAX_LABEL_WORDS:]))


def births_in(text: str) -> Iterator[tuple[int, int, Kind, float]]:
    """The dates after a word that says that somebody was born then."""
    if any(word in text for word in _BORN_WORDS):
        for found in _BORN.finditer(text):
            yield *found.span("date"), Kind.BIRTH_DATE, 0.9


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space, quotation marks and a final stop around it."""
    while start < end and text[start] in " \t\r\"'":
        start += 1
    while start < end and text[end - 1] in " \t\r\"'.":
        end -= 1
    return start, end


def by_field(part: Part, text: str, is_among_people: bool) -> Found:
    """Kind and confidence of a whole value, by the name and the format of its field, and by the other values of its
    column."""
    if is_among_people and is_role_field(part.name) and _CAPITALISED.fullmatch(text):
        return Kind.NAME, 0.75
    beside = part.is_beside_person or is_among_people
    if part.renamed is None:
        return _by_name(part.name, text, beside)
    is_of_person = is_among_people if part.renamed.is_of_person is False else beside
    return _surest(_by_name(part.name, text, beside), _by_renamed(part.renamed, text, is_of_person))


def columns_of_people(searched: SearchedText) -> set[tuple[str, int]]:
    """The columns of names that nothing beside them says whose they are, and that have given names among them."""
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for part in searched.telling:
        if _may_be_name(part):
            read, given = counts.get(part.column, (0, 0))
            if read < _MAX_READ:
                is_given = is_person(searched.text[part.start : part.end].strip())
                counts[part.column] = read + 1, given + is_given
    return {column for column, (read, given) in counts.items() if given > 1 and given >= _MIN_SHARE * read}


def _by_label(words: list[str], text: str) -> Found:
    """By the last words, of which the first may belong to the text before the label."""
    for first in range(max(0, len(words) - _MAX_LABEL_WORDS), len(words)):
        found = _by_name(" ".join(words[first:]), text, beside_person=False)
        if found and found[0] is not Kind.ADDRESS:
            return found
    return None


def _by_renamed(renamed: Renamed | None, text: str, is_of_person: bool) -> Found:
    """By what a query has read in this field."""
    if renamed is None:
        return None
    is_of_person = is_of_person or bool(renamed.is_of_person)
    return _surest(*(_by_name(name, text, is_of_person, renamed.is_computed) for name in renamed.names))


def _surest(*found: Found) -> Found:
    return max(filter(None, found), key=lambda it: it[1], default=None)


def _may_be_name(part: Part) -> bool:
    """Whether it may be a name that nothing beside it says whose it is."""
    if is_role_field(part.name):
        return True
    if part.renamed is None or part.renamed.is_of_person is None:
        names = (part.name, *(part.renamed.names if part.renamed else ()))
        return not part.is_beside_person and any(map(may_be_name_field, names))
    return part.renamed.is_of_person is False


def _by_name(name: str, text: str, beside_person: bool, is_computed: bool = False) -> Found:
    """`is_computed`: the text need not look like a value of the field."""
    if _is_header(name, text):
        return None
    says = field_evidence(name)
    if says is Kind.BIRTH_DATE and (
        _DATE.fullmatch(text) or (is_computed and len(_DIGIT.findall(text)) >= _FEW_DIGITS)
    ):
        return Kind.BIRTH_DATE, 0.95
    if says is Kind.EMAIL and _LOCAL_EMAIL.fullmatch(text):
        return Kind.EMAIL, 0.9
    if is_person_field(name) and _is_name(text, is_computed):
        return Kind.NAME, 0.9
    if says is Kind.ADDRESS and _STREET.fullmatch(text) and "://" not in text:
        return Kind.ADDRESS, 0.8
    if says is Kind.CREDENTIAL and text.casefold() not in _NO_PASSWORDS and (is_computed or _PASSWORD.fullmatch(text)):
        has_digit = any(character.isdigit() for character in text)
        return Kind.CREDENTIAL, 0.85 if has_digit or is_computed or not text.isalpha() else 0.4
    if is_document_field(name) and _DOCUMENT.fullmatch(text) and not _DATE.fullmatch(text):
        return Kind.NATIONAL_ID, 0.85
    if may_be_name_field(name) and _is_name(text, is_computed):
        return Kind.NAME, 0.75 if beside_person or is_person(text) else 0.3
    if is_role_field(name) and is_person(text):
        return Kind.NAME, 0.75
    return None


def _is_header(name: str, text: str) -> bool:
    """Whether a value is the name of its own field, or that of a field with names of persons: `NAME: Name`,
    `surname: Last Name`. A row of headers may be among the records."""
    if len(text) > _MAX_LABEL_CHARACTERS or (
        text[:1].casefold() != name[:1].casefold() and text[:_START].casefold() not in _STARTS_OF_PERSON_FIELDS
    ):
        return False
    written = _NO_WORD.sub("", text).casefold()
    return written in PERSON_FIELDS or written == _NO_WORD.sub("", name).casefold()


def _is_name(text: str, is_computed: bool) -> bool:
    if text.casefold() in _NO_NAMES:
        return False
    return bool(_PERSON.fullmatch(text)) or (is_computed and any(map(str.isalpha, text)))
