"""Finds forms of originals, and parts of them, by windows: runs of six characters, or of eight digits.

All places of a text are compared with all windows at once. What may be one is looked up, compared character by
character, and left to `form_matches` to decide. A form is added at the same cost whatever number there is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

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

Owners = dict[bytes, tuple[Form, ...]]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]
Placed = tuple[int, Found]
"""Where in the letters and digits what was found ends."""


class FormIndex:
    """May be asked in any thread while one changes it."""

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        self._wholes: Owners = {}
        """By one window of each form."""
        self._parts: Owners = {}
        self._weak: Owners = {}
        self._literal_parts: Owners = {}
        self._short: Owners = {}
        """Forms without a window, by their first characters."""
        self._known = WindowTable()
        """All windows of all forms."""
        self._telling = WindowTable(is_second=True)
        """Those of `_wholes`, `_parts` and `_weak`."""
        self._anchors = WindowTable()
        """Those by which forms are found that are not found by several windows in a row."""
        self._edges = WindowTable()
        """Those of `_literal_parts`."""
        self._names, self._signs = WindowTable(), WindowTable()
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
                (self._literal_parts, self._edges, windows.literal_parts),
            ):
                keys = [canonical(window) for window in parts]
                table.add(keys)
                for key in keys:
                    _append(owners, key, form, _MAX_SHARED + 1)
            self._anchor(form)

    def _anchor(self, form: Form) -> None:
        if len(form.characters) < PART_CHARACTERS:
            start = canonical(form.literal[:SHORT_CHARACTERS])
            _append(self._short, start, form, sys.maxsize)
            (self._names if form.is_single_word else self._signs).add((start,))
            return
        windows = [canonical(window) for window in anchors_of(form)]
        rarest = min(windows, key=lambda window: len(self._wholes.get(window, ())))
        _append(self._wholes, rarest, form, _MAX_AT_WINDOW)
        self._telling.add((rarest,))
        if not form.is_free:
            self._anchors.add((rarest,))

    def drop(self, form: Form) -> None:
        """Find it no more."""
        windows = Windows(form)
        start = canonical(form.literal[:SHORT_CHARACTERS])
        _remove(self._wholes, map(canonical, anchors_of(form)), form)
        _remove(self._parts, map(canonical, windows.parts), form)
        _remove(self._weak, map(canonical, windows.weak), form)
        _remove(self._literal_parts, map(canonical, windows.literal_parts), form)
        _remove(self._short, (start,), form)

    def found(self, searched: Searched) -> Iterator[Found]:
        """Where in a text forms are, or parts of them, in no certain order."""
        yield from self._windows_found(searched)
        if self._short or self._literal_parts:
            yield from self._literals_found(searched)

    def _windows_found(self, searched: Searched) -> Iterator[Found]:
        characters, done = searched.characters, 0
        for at in self._candidates(searched):
            if at + PART_DIGITS <= done:
                continue
            window = window_at(characters, at)
            best: Placed | None = None
            for placed in self._at(searched, window, at):
                best = _better(best, placed)
                if placed[1].is_whole:
                    break
            if best is None and len(window) == PART_DIGITS:  # a short number may stand before another one
                best = next(self._at(searched, window[:PART_CHARACTERS], at), None)
            if best is not None:
                done, found = best
                yield found

    def _at(self, searched: Searched, window: bytes, at: int) -> Iterator[Placed]:
        """What the window that begins at `at` is of."""
        key = canonical(window)
        wholes = self._wholes.get(key, ())
        if len(wholes) == _MAX_AT_WINDOW:
            yield at + len(window), searched.anyhow(wholes[0], at, at + len(window))
        for form in wholes:
            yield from _wholes_at(searched, form, window, at)
        for owners, least in ((self._parts, PART_CHARACTERS), (self._weak, MIN_FREE)):
            there = owners.get(key, ())
            for form in there if len(there) <= _MAX_SHARED else ():
                yield from _parts_at(searched, form, window, at, least)

    def _candidates(self, searched: Searched) -> Iterator[int]:
        """Where in the letters and digits a known window may be that is worth a look."""
        count = len(searched.characters) - PART_CHARACTERS + 1
        if count <= _FEW_WINDOWS:
            yield from range(count)
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
            yield from (np.flatnonzero(chosen[start - first : start - first + _BLOCK]) + start).tolist()

    def _literals_found(self, searched: Searched) -> Iterator[Found]:
        data = searched.data
        keys = eights(data)
        starts = _word_starts(searched)
        if self._literal_parts:
            beside = np.concatenate([starts, starts[starts > 0] - 1])
            is_known = self._edges.has(canonical_keys(keys[beside], PART_CHARACTERS))
            for place in beside[is_known].tolist():
                owners = self._literal_parts.get(canonical(data[place : place + PART_CHARACTERS]), ())
                if 0 < len(owners) <= _MAX_SHARED and (one := searched.literal_part(owners[0], place, PART_CHARACTERS)):
                    yield one
        places = starts[self._names.has(canonical_keys(keys[starts], SHORT_CHARACTERS))]
        if len(self._signs):
            places = np.append(places, np.flatnonzero(self._signs.has(canonical_keys(keys, SHORT_CHARACTERS))))
        for place in places.tolist():
            for form in self._short.get(canonical(data[place : place + SHORT_CHARACTERS]), ()):
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


def _wholes_at(searched: Searched, form: Form, window: bytes, at: int) -> Iterator[Placed]:
    for characters in (form.characters, form.backwards):
        if (offset := characters.find(window)) < 0 or offset > at:
            continue
        start, end = at - offset, at - offset + len(characters)
        if searched.characters[start:end] == characters:
            one = searched.whole(form, start, is_backwards=characters is not form.characters)
            if one is not None:
                yield end, one


def _parts_at(searched: Searched, form: Form, window: bytes, at: int, least: int) -> Iterator[Placed]:
    for characters, gaps in ((form.characters, form.gaps), (form.backwards, form.gaps[::-1])):
        if (offset := characters.find(window)) < 0:
            continue
        if searched.characters[max(0, at - offset) : at - offset + len(characters)] == characters:
            yield from _wholes_at(searched, form, window, at)
            continue
        for start, end in searched.extents(characters, offset, at, len(window)):
            own = gaps[start - at + offset : end - at + offset - 1]
            if end - start >= least and (one := searched.part(form, start, end, own)) is not None:
                yield end, one
                break


def _better(one: Placed | None, other: Placed) -> Placed:
    return other if one is None or rank(other[1]) > rank(one[1]) else one


def _append(owners: Owners, window: bytes, form: Form, most: int) -> None:
    there = owners.get(window, ())
    if len(there) < most and form not in there:
        owners[window] = (*there, form)


def _remove(owners: Owners, windows: Iterable[bytes], form: Form) -> None:
    for window in windows:
        left = tuple(it for it in owners.get(window, ()) if it is not form)
        if left:
            owners[window] = left
        else:
            owners.pop(window, None)
