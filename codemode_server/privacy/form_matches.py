"""Decides whether a form, or a part of it, counts where its letters and digits stand in a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.folding import CLASS, DIGIT, NOTHING
from codemode_server.privacy.name_words import MAX_TITLE_CHARACTERS, Reach, ends_with_title
from codemode_server.privacy.ordinary_words import is_ordinary
from codemode_server.privacy.original_forms import MIN_FREE, PART_DIGITS, Form
from codemode_server.privacy.readings import Reading

Flags = NDArray[np.bool_]

_MIN_STEPS, _STEPS_PER_CHARACTER = 10_000, 4
"""Steps of comparisons after which a search takes what may be a match for one. Ordinary texts need a tenth of them."""
_BEFORE_VALUES, _AFTER_VALUES = frozenset({*"\n\r\t\"'[{,;:=|>", ""}), frozenset({*"\n\r\t\"']},;|<", ""})
"""What may stand beside a value; nothing does at the ends of a text."""
_MAX_GAP = 3
"""Separators in a row between groups of digits that are one number."""


class Found(NamedTuple):
    """Where in a text a form is: as a whole or a part of it."""

    start: int
    end: int
    is_whole: bool
    token: str


def rank(found: Found) -> tuple[bool, int]:
    """The greater, the better it says what is there."""
    return found.is_whole, found.end - found.start


class Searched:
    """A reading with its letters and digits side by side."""

    def __init__(self, text: str, reading: Reading) -> None:
        self.text = text
        self.reading = reading
        self.data = reading.data.tobytes()
        self.places = np.flatnonzero(CLASS[reading.data])
        """Where in `data` the letters and digits are."""
        self.characters = reading.data[self.places].tobytes()
        self._steps_left = _MIN_STEPS + _STEPS_PER_CHARACTER * len(self.characters)

    @cached_property
    def apart(self) -> Flags:
        """Whether anything is between each letter or digit and the next one."""
        flags: Flags = np.diff(self.places) > 1
        return flags

    @property
    def is_exhausted(self) -> bool:
        """Whether this search has taken as many steps as it may take."""
        return self._steps_left < 0

    def spend(self, steps: int) -> None:
        self._steps_left -= steps

    def is_spread(self, start: int, size: int) -> bool:
        """Whether so many letters or digits from `start` on all have something between them."""
        return bool(self.apart[start : start + size - 1].all())

    def whole(self, form: Form, start: int, *, is_backwards: bool) -> Found | None:
        """The form, whose characters stand from `start` on, if it counts there."""
        end = start + len(form.characters)
        first, last = int(self.places[start]), int(self.places[end - 1]) + 1
        if not is_backwards and self.data[first:last] == form.inner:
            return self.written(form, first)
        if form.reach is not Reach.ANYWHERE:
            return None
        is_alone = self.is_alone(first, last, form.is_digits)
        if (form.is_single_word or form.is_between_words) and not is_alone:
            return None
        gaps = self._gaps(start, end)
        is_alone = is_alone and not self._goes_on(start, end, gaps)
        own = form.gaps[::-1] if is_backwards else form.gaps
        if not _counts(form, gaps, own, is_alone=is_alone):
            return None
        return Found(*self.reading.span(first, last), True, form.token)

    def written(self, form: Form, first: int) -> Found | None:
        """The form, which stands in `data` from `first` on with its own separators, if it counts there."""
        last = first + len(form.inner)
        is_short_number = form.is_digits and form.written.isalnum() and last - first < PART_DIGITS
        has_to_be_alone = form.is_single_word or form.is_between_words or is_short_number
        if has_to_be_alone and not self.is_alone(first, last, form.is_digits):
            return None
        if not self._is_within(form.reach, first, last):
            return None
        before, after = first - len(form.lead), last + len(form.trail)
        has_all = before >= 0 and self.data[before:first] == form.lead and self.data[last:after] == form.trail
        start, end = self.reading.span(before, after) if has_all else self.reading.span(first, last)
        inner = self.text[slice(*self.reading.span(first, last))]
        return Found(start, end, True, form.token) if _is_spelled(form, inner) else None

    def _is_within(self, reach: Reach, first: int, last: int) -> bool:
        """Whether these bytes stand where a value of this reach counts."""
        match reach:
            case Reach.ANYWHERE | Reach.AS_WRITTEN:
                return True
            case Reach.WHOLE_VALUES:
                return self._is_whole_value(first, last)
            case Reach.BESIDE_TITLES:
                start, _ = self.reading.span(first, last)
                return ends_with_title(self.text[max(0, start - MAX_TITLE_CHARACTERS) : start])

    def _is_whole_value(self, first: int, last: int) -> bool:
        """Whether these bytes are a line, a field of a table or of JSON, or a text in quotation marks, and no key."""
        start, end = self.reading.span(first, last)
        before, after = self.text[max(0, start - 1) : start], self.text[end : end + 1]
        return before in _BEFORE_VALUES and after in _AFTER_VALUES and self.text[end + 1 : end + 2] != ":"

    def part(self, form: Form, start: int, end: int, own: bytes) -> Found | None:
        """A part of the form, whose characters stand from `start` to `end`; `own` are its gaps in the form."""
        first, last = int(self.places[start]), int(self.places[end - 1]) + 1
        is_digits = self.characters[start:end].isdigit()
        size = end - start
        there = self.data[first:last]
        is_literal = b" " not in there and there != self.characters[start:end] and there in form.inner
        words = _words(self.characters[start:end], own)
        if not is_literal and all(word.isalpha() and is_ordinary(word) for word in words):
            return None
        if size < MIN_FREE or is_digits:
            gaps = self._gaps(start, end)
            has_order = not any(gaps) or all(gaps) or [gap > 0 for gap in gaps] == [gap > 0 for gap in own]
            if not has_order or (is_digits and size < PART_DIGITS):
                return None
            if not self.is_alone(first, last, is_digits) or self._goes_on(start, end, gaps):
                return None
        return Found(*self.reading.span(first, last), False, form.token)

    def literal_part(self, form: Form, first: int, size: int) -> Found | None:
        """A part with separators, which stands in `data` from `first` on."""
        last = first + size
        if b"@" not in self.data[first:last] and not self.is_alone(first, last, False):
            return None
        return Found(*self.reading.span(first, last), False, form.token)

    def anyhow(self, form: Form, start: int, end: int) -> Found:
        """The characters from `start` to `end`, whatever they are a part of."""
        first, last = int(self.places[start]), int(self.places[end - 1]) + 1
        return Found(*self.reading.span(first, last), False, form.token)

    def backwards(self, form: Form, first: int, last: int) -> Found | None:
        """A single word, which stands backwards in `data` from `first` to `last`, if it counts there."""
        return self.between(form, first, last) if form.reach is Reach.ANYWHERE else None

    def between(self, form: Form, first: int, last: int) -> Found:
        """The form, as what stands in `data` from `first` to `last`."""
        return Found(*self.reading.span(first, last), True, form.token)

    def extents(self, characters: bytes, offset: int, at: int, size: int) -> Iterator[tuple[int, int]]:
        """From where to where the text has these characters, of which `size` from `offset` on stand at `at`: all, and
        as many as are separated like those."""
        start, end = at, at + size
        first, last = at - offset, at - offset + len(characters)
        while start > max(first, 0) and self.characters[start - 1] == characters[start - 1 - first]:
            start -= 1
        while end < min(last, len(self.characters)) and self.characters[end] == characters[end - first]:
            end += 1
        self.spend(end - start)
        yield start, end
        gaps = self._gaps(start, end)
        is_apart = gaps[at - start] > 0
        left, right = at - start, at + size - 1 - start
        while left > 0 and (gaps[left - 1] > 0) == is_apart:
            left -= 1
        while right < len(gaps) and (gaps[right] > 0) == is_apart:
            right += 1
        yield start + left, start + right + 1

    def _gaps(self, start: int, end: int) -> Sequence[int]:
        self.spend(end - start)
        places: list[int] = self.places[start:end].tolist()
        return [after - before - 1 for before, after in pairwise(places)]

    def _goes_on(self, start: int, end: int, gaps: Sequence[int]) -> bool:
        """Whether these are some of many digits that all are apart, as in a list of small numbers."""
        if not all(gaps) or not self.characters[start:end].isdigit():
            return False
        return self.characters[max(0, start - 1) : start].isdigit() or self.characters[end : end + 1].isdigit()

    def is_alone(self, first: int, last: int, is_digits: bool) -> bool:
        """Whether no letter or digit is beside these bytes, or no digit beside digits."""
        for inside, beside in ((first, first - 1), (last - 1, last)):
            if not 0 <= beside < len(self.data):
                continue
            there = CLASS[self.data[beside]]
            if there in (0, NOTHING) or not CLASS[self.data[inside]]:
                continue
            if there == DIGIT or not is_digits:
                return False
        return True


def _words(characters: bytes, gaps: bytes) -> Iterator[bytes]:
    start = 0
    for at, is_apart in enumerate(gaps, 1):
        if is_apart:
            yield characters[start:at]
            start = at
    yield characters[start:]


def _counts(form: Form, gaps: Sequence[int], own: bytes, *, is_alone: bool) -> bool:
    """Whether a form counts with these separators, which are not as it was written, or backwards."""
    is_joined, is_spread = not any(gaps), all(gaps)
    if form.is_single_word:
        return is_alone and (is_joined or is_spread)
    if form.is_digits and len(form.characters) < PART_DIGITS and is_joined:
        return False
    is_long = len(form.characters) >= MIN_FREE
    if is_joined or is_spread or [gap > 0 for gap in gaps] == [gap > 0 for gap in own]:
        return is_alone or is_long
    if not form.is_digits:
        return is_long
    return is_long and is_alone and max(gaps) <= _MAX_GAP


def _is_spelled(form: Form, there: str) -> bool:
    """Whether a form that stands in a text with its own separators is spelled as it has to be: an ordinary word that is
    a name has its capital letters, and letters of which several are one folded byte are the same."""
    if len(there) != len(form.written.strip()):
        return True
    if form.is_ordinary:
        return there == form.written.strip() if form.is_single_word else not there.islower() or form.written.islower()
    return form.inner.isascii() or there.casefold() == form.written.strip().casefold()
