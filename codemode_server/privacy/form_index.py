"""Finds forms of originals, and parts of them, by windows: runs of six characters, or of eight digits.

All places of a text are compared with all windows at once. What may be one is looked up, compared character by
character, and left to `form_matches` to decide. A form is added at the same cost whatever number there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.folding import BREAK, CLASS, NOTHING
from codemode_server.privacy.form_matches import Found, Searched, rank
from codemode_server.privacy.original_forms import (
    MIN_FREE,
    PART_CHARACTERS,
    PART_DIGITS,
    SHORT_CHARACTERS,
    Form,
    Windows,
    anchors_of,
    canonical,
    window_at,
)
from codemode_server.privacy.window_owners import WindowOwners
from codemode_server.privacy.window_table import WindowTable, are_digits, canonical_keys, eights

_MAX_SHARED = 8
"""Originals that may have a window in common; a window of more of them is no part."""
_MAX_AT_WINDOW = 64
"""Forms that are compared at one window. If there are as many, the window alone is a match."""
_BLOCK = 1 << 15
"""Windows that are compared at once, so that they stay in the processor's cache."""
_RUN = MIN_FREE - PART_CHARACTERS + 1
_FEW_WINDOWS = 200
"""So many are looked up one by one."""

Flags = NDArray[np.bool_]
Places = NDArray[np.int64]


class Placed(NamedTuple):
    """What was found, and where it ends in the letters and digits of the text."""

    end: int
    found: Found


class FormIndex:
    """May be asked in any thread while one changes it."""

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        self._wholes = WindowOwners(_MAX_AT_WINDOW)
        """By one window of each form, or by all if each of them has as many forms as are compared."""
        self._parts = WindowOwners(_MAX_SHARED + 1)
        self._weak = WindowOwners(_MAX_SHARED + 1)
        self._literal_parts = WindowOwners(_MAX_SHARED + 1)
        self._short = WindowOwners()
        """Forms without a window, by their first characters."""
        self._known = WindowTable()
        """All windows of all forms."""
        self._telling = WindowTable(is_second=True)
        """Those of `_wholes`, `_parts` and `_weak`."""
        self._of_wholes = WindowTable()
        """Those of `_wholes`."""
        self._anchors = WindowTable()
        """Those by which forms are found that are not found by several windows in a row."""
        self._windows_of_literals = WindowTable()
        """Those of `_literal_parts`."""
        self._word_beginnings, self._other_beginnings = WindowTable(), WindowTable()
        """Those of `_short`: of single words, and of others."""
        self.take(forms)

    def take(self, forms: Iterable[Form]) -> None:
        """Find these too."""
        for form in forms:
            windows = Windows(form)
            self._known.add(map(canonical, windows.all))
            for owners, table, parts in (
                (self._parts, self._telling, windows.parts),
                (self._weak, self._telling, windows.weak),
                (self._literal_parts, self._windows_of_literals, windows.literal_parts),
            ):
                keys = [canonical(window) for window in parts]
                table.add(keys)
                for key in keys:
                    owners.add(key, form)
            self._anchor(form)

    def _anchor(self, form: Form) -> None:
        if len(form.characters) < PART_CHARACTERS:
            start = canonical(form.literal[:SHORT_CHARACTERS])
            self._short.add(start, form)
            (self._word_beginnings if form.is_single_word else self._other_beginnings).add((start,))
            return
        windows = [canonical(window) for window in anchors_of(form)]
        rarest = min(windows, key=lambda window: len(self._wholes.at(window)))
        is_full = len(self._wholes.at(rarest)) == _MAX_AT_WINDOW
        chosen = windows if is_full else [rarest]  # if all are full, each is a match, so that the whole form is covered
        for window in chosen:
            self._wholes.add(window, form)
        self._telling.add(chosen)
        self._of_wholes.add(chosen)
        if not form.is_free:
            self._anchors.add(chosen)

    def drop(self, form: Form) -> None:
        """Find it no more."""
        windows = Windows(form)
        start = canonical(form.literal[:SHORT_CHARACTERS])
        self._wholes.remove(map(canonical, anchors_of(form)), form)
        self._parts.remove(map(canonical, windows.parts), form)
        self._weak.remove(map(canonical, windows.weak), form)
        self._literal_parts.remove(map(canonical, windows.literal_parts), form)
        self._short.remove((start,), form)

    def found(self, searched: Searched) -> Iterator[Found]:
        """Where in a text forms are, or parts of them, in no certain order."""
        yield from self._windows_found(searched)
        if self._short or self._literal_parts:
            yield from self._literals_found(searched)

    def _windows_found(self, searched: Searched) -> Iterator[Found]:
        """Whole forms are looked for within what was found too, since a longer one may begin there."""
        done, ends = 0, dict[Form, int]()
        for at, may_be_of_whole in self._candidates(searched):
            is_within = at + PART_DIGITS <= done
            if is_within and not may_be_of_whole:
                continue
            window = window_at(searched.characters, at)
            placed = self._whole_at(searched, window, at, ends)
            if placed is None and not is_within:
                placed = self._part_at(searched, window, at)
            if placed is not None:
                done = placed.end
                yield placed.found

    def _whole_at(self, searched: Searched, window: bytes, at: int, ends: dict[Form, int]) -> Placed | None:
        """The longest form with this window at `at`. `ends` says where each form that was found ends: a form is not
        looked for again within itself, which would take long in repetitive texts."""
        for key in _lookups(window):
            for form in self._wholes.at(canonical(key)):
                if at >= ends.get(form, 0) and (placed := _placed_whole(searched, form, key, at)) is not None:
                    ends[form] = placed.end
                    return placed
        return None

    def _part_at(self, searched: Searched, window: bytes, at: int) -> Placed | None:
        """The best match of what the window at `at` is a part of."""
        for key in _lookups(window):
            best = max(self._parts_at(searched, key, at), key=lambda it: rank(it.found), default=None)
            if best is not None:
                return best
        return None

    def _parts_at(self, searched: Searched, window: bytes, at: int) -> Iterator[Placed]:
        key = canonical(window)
        wholes = self._wholes.at(key)
        if len(wholes) == _MAX_AT_WINDOW:
            yield Placed(at + len(window), searched.anyhow(wholes[0], at, at + len(window)))
        for owners, least in ((self._parts, PART_CHARACTERS), (self._weak, MIN_FREE)):
            there = owners.at(key)
            for form in there if len(there) <= _MAX_SHARED else ():
                yield from _placed_parts(searched, form, window, at, least)

    def _candidates(self, searched: Searched) -> Iterator[tuple[int, bool]]:
        """Where in the letters and digits a known window may be that is worth a look, and whether it may be one by
        which a whole form is found."""
        count = len(searched.characters) - PART_CHARACTERS + 1
        if count <= _FEW_WINDOWS:
            yield from ((at, True) for at in range(count))
            return
        keys = eights(searched.characters)
        begins = _begins(searched)
        for start in range(0, count, _BLOCK):
            first = max(0, start - _RUN + 1)
            some = keys[first : start + _BLOCK + _RUN - 1]
            sixes = canonical_keys(some, PART_CHARACTERS)
            is_known = self._known.has(sixes)
            is_number = are_digits(some, PART_CHARACTERS)
            chosen = _in_runs(is_known | is_number) | begins[first : first + len(some)]
            chosen &= is_known & ~is_number
            likely = np.flatnonzero(chosen)
            chosen[likely] = self._telling.has(sixes[likely])
            likely = np.flatnonzero(self._anchors.has(sixes))
            chosen[likely[self._telling.has(sixes[likely])]] = True
            numbers = np.flatnonzero(are_digits(some, PART_DIGITS))
            for table in (self._known, self._telling):
                numbers = numbers[table.has(canonical_keys(some[numbers], PART_DIGITS))]
            chosen[numbers] = True
            places = np.flatnonzero(chosen[start - first : start - first + _BLOCK]) + start - first
            may_be_of_whole = self._of_wholes.has(sixes[places])
            may_be_of_whole |= self._of_wholes.has(canonical_keys(some[places], PART_DIGITS))
            yield from zip((places + first).tolist(), may_be_of_whole.tolist(), strict=True)

    def _literals_found(self, searched: Searched) -> Iterator[Found]:
        data = searched.data
        keys = eights(data)
        starts = _word_starts(searched)
        if self._literal_parts:
            beside = np.concatenate([starts, starts[starts > 0] - 1])
            is_known = self._windows_of_literals.has(canonical_keys(keys[beside], PART_CHARACTERS))
            for place in beside[is_known].tolist():
                owners = self._literal_parts.at(canonical(data[place : place + PART_CHARACTERS]))
                if 0 < len(owners) <= _MAX_SHARED and (one := searched.literal_part(owners[0], place, PART_CHARACTERS)):
                    yield one
        places = starts[self._word_beginnings.has(canonical_keys(keys[starts], SHORT_CHARACTERS))]
        if len(self._other_beginnings):
            is_known = self._other_beginnings.has(canonical_keys(keys, SHORT_CHARACTERS))
            places = np.append(places, np.flatnonzero(is_known))
        for place in places.tolist():
            for form in self._short.at(canonical(data[place : place + SHORT_CHARACTERS])):
                if data.startswith(form.literal, place) and (one := searched.written(form, place + len(form.lead))):
                    yield one


def _begins(searched: Searched) -> Flags:
    """Whether each letter or digit is the first of some that have no separators between them, or of some that all
    have."""
    apart = np.diff(searched.places) > 1
    begins = np.ones(len(searched.places), bool)
    begins[1:] = apart
    begins[2:-1] &= ~(apart[:-2] & apart[1:-1] & apart[2:])
    begins[1:] |= np.frombuffer(searched.characters, np.uint8)[:-1] == BREAK
    return begins


def _word_starts(searched: Searched) -> Places:
    kinds = CLASS[searched.reading.data]
    is_start = (kinds != 0) & (kinds != NOTHING)
    is_start[1:] &= (kinds[:-1] == 0) | (kinds[:-1] == NOTHING)
    return np.flatnonzero(is_start)


def _in_runs(are_known: Flags) -> Flags:
    """Those with enough others in a row for `MIN_FREE` characters."""
    count = len(are_known) - _RUN + 1
    in_runs = np.zeros(len(are_known), bool)
    if count > 0:
        full = are_known[:count].copy()
        for at in range(1, _RUN):
            full &= are_known[at : at + count]
        for at in range(_RUN):
            in_runs[at : at + count] |= full
    return in_runs


def _lookups(window: bytes) -> tuple[bytes, ...]:
    """The window, and its beginning if it is one of digits: a short number may stand before another one."""
    return (window, window[:PART_CHARACTERS]) if len(window) == PART_DIGITS else (window,)


def _placed_whole(searched: Searched, form: Form, window: bytes, at: int) -> Placed | None:
    """The form, forwards or backwards, if it has its window that stands at `at`."""
    for characters in {form.characters: None, form.backwards: None}:
        if (offset := characters.find(window)) < 0 or offset > at:
            continue
        start, end = at - offset, at - offset + len(characters)
        if searched.characters[start:end] == characters:
            found = searched.whole(form, start, is_backwards=characters != form.characters)
            if found is not None:
                return Placed(end, found)
    return None


def _placed_parts(searched: Searched, form: Form, window: bytes, at: int, least: int) -> Iterator[Placed]:
    for characters, gaps in ((form.characters, form.gaps), (form.backwards, form.gaps[::-1])):
        if (offset := characters.find(window)) < 0:
            continue
        if searched.characters[max(0, at - offset) : at - offset + len(characters)] == characters:
            if (whole := _placed_whole(searched, form, window, at)) is not None:
                yield whole
            continue
        for start, end in searched.extents(characters, offset, at, len(window)):
            own = gaps[start - at + offset : end - at + offset - 1]
            if end - start >= least and (one := searched.part(form, start, end, own)) is not None:
                yield Placed(end, one)
                break
