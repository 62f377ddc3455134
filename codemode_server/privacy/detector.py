"""Finds personal data in a text or a JSON value, in one pass and in time linear in its size.

Patterns only nominate places; checksums, syntax, field names and the words before a place decide. Where two findings
overlap, the surer one stays, of equally sure ones the longer one; of an address, a name or a credential the rest stays
as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol

from codemode_server.domain.ids import JsonValue
from codemode_server.known_tokens import credentials_in
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.display_names import common_names_in, name_before
from codemode_server.privacy.escape_marks import marked_windows
from codemode_server.privacy.evidence import (
    MAX_CONTEXT_CHARACTERS,
    Against,
    context_evidence,
    field_evidence,
)
from codemode_server.privacy.fields import births_in, by_field, columns_of_people, labelled_in, stripped
from codemode_server.privacy.findings import (
    DEFAULT_THRESHOLD,
    MAX_FINDINGS,
    DetectionSettings,
    Finding,
    Findings,
    Kind,
)
from codemode_server.privacy.free_text import Piece, Span, free_pieces, names_in
from codemode_server.privacy.numbers import MAX_CODE_CHARACTERS, RUN, Checks, code_starts, codes_in, numbers_in
from codemode_server.privacy.own_patterns import compile_pattern
from codemode_server.privacy.own_texts import FREE_FORMS, IsToken, is_label, of_kinds, own_texts_in
from codemode_server.privacy.parts import Part, SearchedText, searched_text, searched_value
from codemode_server.privacy.properties import properties_in
from codemode_server.privacy.renamed_fields import NO_RENAMES, RenamedFields
from codemode_server.privacy.texts import emails_in, ip_confidence, ips_in, streets_in

_OWN_CONFIDENCE = 0.95
_MAX_FIELD_VALUE_CHARACTERS = 300
_MIN_REST_CHARACTERS = 3
Candidate = tuple[int, int, str, float]
PlainValues = dict[tuple[int, int, str], str]
"""Start, end and kind of what stands in a text in escaped form, and what that stands for."""


class FindsPersons(Protocol):
    """A recognizer of names in free text; `NameRecognizer` is one."""

    async def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        """The names of persons in each text."""


class Detector:
    """Searches values under one set of settings. Holds no values; may be used in any thread.

    A recognizer is asked by `find` alone, since it takes long.

    Raises:
        ValueError: a pattern of the settings is wrong.
    """

    def __init__(self, settings: DetectionSettings | None = None, recognizer: FindsPersons | None = None) -> None:
        self._settings = settings or DetectionSettings()
        self._recognizer = recognizer
        self._own = [(name, compile_pattern(text)) for name, text in self._settings.patterns.items()]
        self._is_of_a_kind = of_kinds((*Kind, *self._settings.patterns))
        self._allowed = [
            re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", allowed).split("*"))), re.IGNORECASE | re.DOTALL)
            for allowed in self._settings.allowed
        ]

    def allows(self, value: str) -> bool:
        """Whether the settings say that a value is not personal."""
        return any(allowed.fullmatch(value) for allowed in self._allowed)

    def in_text(
        self, text: str, name: str = "", fields: RenamedFields = NO_RENAMES, is_token: IsToken | None = None
    ) -> Findings:
        """What a text holds; `name` is that of the field that it comes from, the rest as in `in_value`."""
        return self._found(searched_text(text, name, fields), is_token)

    def in_value(
        self,
        value: JsonValue,
        schema: dict[str, Any] | None = None,
        fields: RenamedFields = NO_RENAMES,
        is_token: IsToken | None = None,
    ) -> Findings:
        """What the strings, keys and long numbers of a JSON value hold; `schema` is the JSON Schema of it, and
        `fields` says what a query calls its fields. Nothing is found within what `is_token` says is a token; without
        it, within what has the form of a token of a kind that is searched for."""
        return self._found(searched_value(value, schema, fields), is_token)

    async def find(
        self,
        value: JsonValue,
        schema: dict[str, Any] | None = None,
        fields: RenamedFields = NO_RENAMES,
        is_token: IsToken | None = None,
    ) -> Findings:
        """As `in_value`; a large value is searched in a thread, and free text for names by the recognizer, if there is
        one. What that raises is raised."""
        has_much_to_do = is_large(value)
        if self._recognizer is None:
            return await run_sized(has_much_to_do, self.in_value, value, schema, fields, is_token)
        searched, pieces = await run_sized(has_much_to_do, _with_pieces, value, schema, fields)
        if pieces is None:
            return Findings(is_complete=False)
        spans = await self._recognizer.persons_in([piece.text for piece in pieces])
        names = chain.from_iterable(map(names_in, pieces, spans))
        return await run_sized(has_much_to_do, self._found, searched, is_token, names)

    def _found(self, searched: SearchedText, is_token: IsToken | None, names: Iterable[Candidate] = ()) -> Findings:
        beside = partial(self._beside_tokens, is_token or self._is_of_a_kind)
        candidates = list(islice(beside(searched, names), MAX_FINDINGS + 1))
        values, others, is_all = self._add_escaped(candidates, searched, beside)
        is_complete = searched.is_complete and is_all and len(candidates) <= MAX_FINDINGS
        found: list[Finding] = []
        for start, end, kind, confidence in _without_overlaps(candidates, searched.text, others):
            part = searched.part_at(start)
            value = values.get((start, end, kind)) or searched.text[start:end]
            if self.allows(value) or is_label(kind, value):
                continue
            first = start - part.start + part.offset
            found.append(
                Finding(kind, value, confidence, part.place, first, first + end - start, part.is_key, part.is_number)
            )
        return Findings(tuple(found), is_complete)

    def _add_escaped(
        self,
        candidates: list[Candidate],
        searched: SearchedText,
        beside: Callable[[SearchedText, Iterable[Candidate]], Iterator[Candidate]],
    ) -> tuple[PlainValues, list[Candidate], bool]:
        """Adds what the text holds in escaped form. Returns what it stands for, the candidates that it takes the place
        of, and whether all was searched."""
        if not (windows := marked_windows(searched.text)):
            return {}, [], True
        from codemode_server.privacy.plain_reading import plain_reading, together  # NumPy takes a tenth of a second

        plain = plain_reading(searched, windows)
        found = list(islice(beside(plain.searched, ()), MAX_FINDINGS + 1))
        values, replaced = together(candidates, plain.located(found), searched.text)
        return values, replaced, len(found) <= MAX_FINDINGS

    def _beside_tokens(
        self, is_token: IsToken, searched: SearchedText, names: Iterable[Candidate]
    ) -> Iterator[Candidate]:
        """The candidates, of those with tokens in them only what is beside these."""
        candidates = self._candidates(searched, names)
        tokens = [(start, end, "", 1.0) for start, end in own_texts_in(searched.text, is_token)]
        return chain.from_iterable(_beside(tokens, it, searched.text) for it in candidates) if tokens else candidates

    def _candidates(self, searched: SearchedText, names: Iterable[Candidate]) -> Iterator[Candidate]:
        for candidate in chain(_all_candidates(searched, self._own, self._settings.regions), names):
            if candidate[3] >= self._settings.thresholds.get(candidate[2], DEFAULT_THRESHOLD):
                yield candidate


def _with_pieces(
    value: JsonValue, schema: dict[str, Any] | None, fields: RenamedFields
) -> tuple[SearchedText, list[Piece] | None]:
    searched = searched_value(value, schema, fields)
    return searched, free_pieces(searched)


def _all_candidates(
    searched: SearchedText, own: list[tuple[str, re.Pattern[str]]], regions: tuple[str, ...]
) -> Iterator[Candidate]:
    text = searched.text
    evidence, checks = partial(_evidence, searched, 0), Checks()
    for start, end, confidence in emails_in(text):
        yield start, end, Kind.EMAIL, confidence
        if beside := name_before(text, start, end):
            yield beside
    yield from common_names_in(text)
    for start, end in credentials_in(text):
        yield start, end, Kind.CREDENTIAL, 0.95
    for found in ips_in(text):
        if confidence := ip_confidence(found[0], evidence(found.start())):
            yield *found.span(), Kind.IP, confidence
    for run in RUN.finditer(text):
        base = run.start()
        for start, end, kind, confidence in numbers_in(run[0], partial(_evidence, searched, base), regions, checks):
            yield base + start, base + end, kind, confidence
    for base in code_starts(text):
        if match := codes_in(text[base : base + MAX_CODE_CHARACTERS], partial(evidence, base)):
            yield base + match[0], base + match[1], match[2], match[3]
    for start, end, confidence in streets_in(text):
        yield start, end, Kind.ADDRESS, confidence
    for name, pattern in own:
        for found in pattern.finditer(text):
            yield *found.span(), name, _OWN_CONFIDENCE
    yield from _by_fields(searched)


def _by_fields(searched: SearchedText) -> Iterator[Candidate]:
    people = columns_of_people(searched)
    for part in searched.telling:
        is_computed = part.renamed is not None and part.renamed.is_computed
        if is_computed or part.end - part.start <= _MAX_FIELD_VALUE_CHARACTERS:
            start, end = stripped(searched.text, part.start, part.end)
            if found := by_field(part, searched.text[start:end], part.column in people):
                yield start, end, *found
    yield from labelled_in(searched.text, searched.fields)
    yield from births_in(searched.text)
    yield from properties_in(searched.text)


def _evidence(searched: SearchedText, base: int, offset: int) -> Kind | Against | None:
    """What stands for or against a value at a position: the words before it in its line, else its field."""
    position = base + offset
    part: Part = searched.part_at(position)
    if part.says:
        return part.says
    before = searched.text[max(part.start, position - MAX_CONTEXT_CHARACTERS) : position]
    own, renamed = field_evidence(part.name), part.renamed
    return context_evidence(before) or (renamed and renamed.kind) or own or (renamed and renamed.against)


def _without_overlaps(candidates: list[Candidate], text: str, others: list[Candidate]) -> list[Candidate]:
    """Those that stay, in order of place, and what they leave of the rest of them that is a text of any form. `others`
    stay where none of these does."""
    taken: list[Candidate] = []
    partial: list[Candidate] = []
    candidates.sort(key=lambda one: (one[0], -one[3], one[0] - one[1]))
    for candidate in candidates:
        if taken and candidate[0] < taken[-1][1]:  # by their order, it overlaps no earlier one
            rival = taken[-1]
            if (rival[3], rival[1] - rival[0]) >= (candidate[3], candidate[1] - candidate[0]):
                partial.append(candidate)
                continue
            partial.append(taken.pop())
        taken.append(candidate)
    _fill(taken, [*partial, *others])
    rests = [rest for one in partial if one[2] in FREE_FORMS for rest in _rests(one, taken, text)]
    return sorted([*taken, *rests]) if rests else taken


def _fill(taken: list[Candidate], left: list[Candidate]) -> None:
    """Takes those that overlap none any more, since what was surer than they are has lost to another one."""
    for candidate in sorted(left, key=lambda one: (-one[3], one[0] - one[1])):
        at = bisect_right(taken, candidate[0], key=lambda one: one[1])
        if at == len(taken) or taken[at][0] >= candidate[1]:
            taken.insert(at, candidate)


def _beside(tokens: list[Candidate], candidate: Candidate, text: str) -> Iterable[Candidate]:
    at = bisect_right(tokens, candidate[0], key=lambda one: one[1])
    is_beside = at == len(tokens) or tokens[at][0] >= candidate[1]
    return (candidate,) if is_beside else _rests(candidate, tokens, text)


def _rests(candidate: Candidate, taken: list[Candidate], text: str) -> Iterator[Candidate]:
    """The parts of a candidate that none of these covers: an address around a phone number."""
    start, end, kind, confidence = candidate
    at = bisect_right(taken, start, key=lambda one: one[1])
    while start < end:
        stop = min(end, taken[at][0]) if at < len(taken) else end
        first, last = start, max(start, stop)
        while first < last and not text[first].isalnum():
            first += 1
        while first < last and not text[last - 1].isalnum():
            last -= 1
        if last - first >= _MIN_REST_CHARACTERS:
            yield first, last, kind, confidence
        start = max(stop, taken[at][1]) if at < len(taken) else end
        at += 1
