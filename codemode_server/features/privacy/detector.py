"""Finds personal data in a text or a JSON value, in one pass and in time linear in its size.

Patterns only nominate places; checksums, syntax, field names and the words before a place decide. Where two findings
overlap, the surer one stays, of equally sure ones the longer one.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN, label_of
from codemode_server.features.privacy.fields import (
    MAX_CONTEXT_CHARACTERS,
    Evidence,
    by_field,
    context_evidence,
    field_evidence,
    labelled_in,
    may_tell_alone,
    stripped,
)
from codemode_server.features.privacy.findings import (
    DEFAULT_THRESHOLD,
    MAX_FINDINGS,
    Finding,
    Findings,
    Kind,
)
from codemode_server.features.privacy.given_names import is_person
from codemode_server.features.privacy.name_recognizer import NameRecognizer, free_pieces, names_in
from codemode_server.features.privacy.numbers import numbers_in
from codemode_server.features.privacy.settings import DetectionFields
from codemode_server.features.privacy.texts import emails_in, ip_confidence, ips_in, name_before, streets_in
from codemode_server.features.privacy.walk import SearchedText, searched_value
from codemode_server.support.known_tokens import credentials_in
from codemode_server.support.off_loop import is_large, run_sized

_SURE = 0.95
_MAX_FIELD_CHARACTERS = 300
_MAX_NAME_CHARACTERS = 80
_MAX_VALUE_CHARACTERS = 10_000
"""A value with a longer finding counts as not searched, since known values are in memory."""
_MIN_SHARE = 0.3
"""The share of persons' names that makes a column one of names."""
_LABEL = re.compile(f"(?:{'|'.join(map(label_of, Kind))})(?:_[0-9]{{1,5}})?")
"""Labels of tokens are no names, even in a field of names."""
_FREE_FORMS = frozenset({Kind.ADDRESS, Kind.CREDENTIAL, Kind.NAME})
"""Kinds whose values have no syntax: any text can be one, and a part of one is personal too."""
_MIN_REST_CHARACTERS = 3
Candidate = tuple[int, int, str, float]


class Detector:
    """Searches values under one set of settings. Holds no values; may be used in any thread. A recognizer is asked by
    `find` alone, since it takes long."""

    def __init__(self, settings: DetectionFields | None = None, recognizer: NameRecognizer | None = None) -> None:
        self._settings = settings or DetectionFields()
        self.recognizer = recognizer
        self._own = [(name, re.compile(text)) for name, text in self._settings.patterns.items()]
        self._fields = {name.casefold(): kind for kind, names in self._settings.fields.items() for name in names}
        self._allowed = [
            re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", allowed).split("*"))), re.IGNORECASE | re.DOTALL)
            for allowed in self._settings.allow
        ]

    def allows(self, value: str) -> bool:
        """True if the settings say that a value is not personal."""
        return any(allowed.fullmatch(value) for allowed in self._allowed)

    def in_value(self, value: JsonValue, name: str = "") -> Findings:
        """The findings in the strings, keys and long numbers of a JSON value; `name` is that of its field. Nothing is
        found within tokens."""
        return self._found(searched_value(value, name))

    async def find(self, value: JsonValue) -> Findings:
        """As `in_value`; a large value is searched in a thread, and free text for names by the recognizer, if there is
        one. Its exceptions are raised."""
        has_much_to_do = is_large(value)
        if self.recognizer is None:
            return await run_sized(has_much_to_do, self.in_value, value)
        searched = await run_sized(has_much_to_do, searched_value, value)
        pieces = await run_sized(has_much_to_do, free_pieces, searched)
        if pieces is None:
            return Findings(is_complete=False)
        spans = await self.recognizer.persons_in([piece.text for piece in pieces])
        names = chain.from_iterable(map(names_in, pieces, spans))
        return await run_sized(has_much_to_do, self._found, searched, names)

    def _found(self, searched: SearchedText, names: Iterable[Candidate] = ()) -> Findings:
        sure = (
            it
            for it in chain(self._candidates(searched), names)
            if it[3] >= self._settings.thresholds.get(it[2], DEFAULT_THRESHOLD)
        )
        candidates = list(islice(sure, MAX_FINDINGS + 1))
        tokens = [(*it.span(), "", 2.0) for it in TOKEN.finditer(searched.text)] if "<" in searched.text else []
        found: list[Finding] = []
        for start, end, kind, confidence in _without_overlaps([*candidates, *tokens], searched.text):
            value = searched.text[start:end]
            if not kind or self.allows(value) or (kind == Kind.NAME and _LABEL.fullmatch(value)):
                continue
            part = searched.part_at(start)
            first, last = part.span_in_string(start, end)
            found.append(Finding(kind, value, confidence, part.place, first, last, part.is_key, part.is_number))
        is_complete = searched.is_complete and len(candidates) <= MAX_FINDINGS
        is_complete = is_complete and all(len(it.value) <= _MAX_VALUE_CHARACTERS for it in found)
        return Findings(tuple(found), is_complete)

    def _candidates(self, searched: SearchedText) -> Iterator[Candidate]:
        text, evidence = searched.text, partial(_evidence, searched)
        for start, end, confidence in emails_in(text):
            yield start, end, Kind.EMAIL, confidence
            yield from name_before(text, start, end)
        for start, end in credentials_in(text):
            yield start, end, Kind.CREDENTIAL, _SURE
        for found in ips_in(text):
            if confidence := ip_confidence(found[0], evidence(found.start())):
                yield *found.span(), Kind.IP, confidence
        yield from numbers_in(text, evidence)
        for start, end, confidence in streets_in(text):
            yield start, end, Kind.ADDRESS, confidence
        for name, pattern in self._own:
            yield from ((*found.span(), name, _SURE) for found in pattern.finditer(text) if found[0])
        yield from labelled_in(text)
        yield from self._by_fields(searched)

    def _by_fields(self, searched: SearchedText) -> Iterator[Candidate]:
        people = _columns_of_people(searched)
        for part in searched.parts:
            if not part.name or part.is_key or part.end - part.start > _MAX_FIELD_CHARACTERS:
                continue
            start, end = stripped(searched.text, part.start, part.end)
            if (kind := self._fields.get(part.name.casefold())) and start < end:
                yield start, end, kind, _SURE
                continue
            is_among_people = part.column in people
            if (is_among_people or may_tell_alone(part.name)) and (
                found := by_field(
                    part.name,
                    searched.text[start:end],
                    beside_person=part.is_beside_person,
                    among_people=is_among_people,
                )
            ):
                yield start, end, *found


def _columns_of_people(searched: SearchedText) -> set[tuple[str, int]]:
    """The columns with several names of persons among their values, whatever they are called."""
    persons, values = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for part in searched.parts:
        if part.name and not part.is_key and part.end - part.start <= _MAX_NAME_CHARACTERS:
            text = searched.text[part.start : part.end].strip(' \r\t"')
            if " " in text and text[0].isupper() and is_person(text):
                persons[part.column] += 1
    if persons:
        values.update(part.column for part in searched.parts if part.name and not part.is_key and not part.is_number)
    return {column for column, count in persons.items() if count > 1 and count >= _MIN_SHARE * values[column]}


def _evidence(searched: SearchedText, position: int) -> Evidence:
    """Evidence for or against a value at a position: the words before it in its line, else its field."""
    part = searched.part_at(position)
    before = searched.text[max(part.start, position - MAX_CONTEXT_CHARACTERS) : position]
    return context_evidence(before) or field_evidence(part.name)


def _without_overlaps(candidates: list[Candidate], text: str) -> list[Candidate]:
    """Those that overlap no surer one, in order of place; of one without a syntax the rest stays beside a surer one."""
    taken, lost = list[Candidate](), list[Candidate]()
    for candidate in sorted(candidates, key=lambda it: (it[0], -it[3], it[0] - it[1])):
        while taken and candidate[0] < taken[-1][1]:
            rival = taken[-1]
            if (rival[3], rival[1] - rival[0]) >= (candidate[3], candidate[1] - candidate[0]):
                lost.append(candidate)
                break
            lost.append(taken.pop())
        else:
            taken.append(candidate)
    for start, end, kind, confidence in sorted(lost, key=lambda it: -it[3]):
        for gap in [*_gaps(start, end, taken)]:
            first, last = gap
            if (first, last) != (start, end):
                while first < last and not text[first].isalnum():
                    first += 1
                while first < last and not text[last - 1].isalnum():
                    last -= 1
                if kind not in _FREE_FORMS or last - first < _MIN_REST_CHARACTERS:
                    continue
            insort(taken, (first, last, kind, confidence))
    return taken


def _gaps(start: int, end: int, taken: list[Candidate]) -> Iterator[tuple[int, int]]:
    at = bisect_right(taken, start, key=lambda it: it[1])
    while start < end:
        stop = min(end, taken[at][0]) if at < len(taken) else end
        if stop > start:
            yield start, stop
        start = taken[at][1] if at < len(taken) else end
        at += 1
