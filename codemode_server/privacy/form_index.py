"""Finds forms of originals, and parts of them, by windows: runs of six characters, or of eight digits.

All places of a text are compared with all windows at once. What may be one is looked up, compared character by
character, and left to `form_matches` to decide. A form is added at the same cost whatever number there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.folding import BREAK
from codemode_server.privacy.form_matches import Found, Searched, rank
from codemode_server.privacy.name_words import Reach
from codemode_server.privacy.original_forms import (
    MIN_FREE,
    PART_CHARACTERS,
    PART_DIGITS,
    Form,
    Windows,
    anchors_of,
    canonical,
    window_at,
)
from codemode_server.privacy.short_forms import Places, ShortForms, WordForms, words_in
from codemode_server.privacy.window_owners import WindowOwners
from codemode_server.privacy.window_table import Keys, WindowTable, are_digits, canonical_keys, eights

_MAX_SHARED = 8
"""Originals that may have a window in common; a window of more of them is no part."""
_MAX_AT_WINDOW = 64
"""Forms that are compared at one window. If there are as many, the window alone is a match."""
_MAX_RESTRICTED = _MAX_AT_WINDOW // 2
"""Forms at one window from which on others are left out that do not count anywhere, so that no window alone is a match
because of them."""
_BLOCK = 1 << 15
"""Windows that are compared at once, so that they stay in the processor's cache."""
_RUN = MIN_FREE - PART_CHARACTERS + 1
_STEPS_OF_CANDIDATE, _STEPS_OF_COMPARISON = 8, 4
_FEW_WINDOWS = 200
"""So many are looked up one by one."""

Flags = NDArray[np.bool_]


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
        self._spread = WindowOwners(_MAX_AT_WINDOW)
        """Single words, as `_wholes` has others: by windows they are found only with something between all letters."""
        self._words = WordForms()
        """Single words as they are."""
        self._short = ShortForms()
        """Other forms without a window."""
        self._known = WindowTable()
        """All windows of all forms."""
        self._telling = WindowTable(is_second=True)
        """Those of `_wholes`, `_parts` and `_weak`."""
        self._of_wholes = WindowTable()
        """Those of `_wholes`."""
        self._anchors = WindowTable()
        """Those by which forms are found that are not found by several windows in a row."""
        self._of_spread = WindowTable()
        """Those of `_spread`."""
        self._windows_of_literals = WindowTable()
        """Those of `_literal_parts`."""
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
            if windows.are_sparse:
                self._anchors.add(map(canonical, (*windows.parts, *windows.weak)))
            self._anchor(form, has_runs=not windows.are_sparse)

    def _anchor(self, form: Form, *, has_runs: bool) -> None:
        if form.is_single_word:
            self._words.add(form)
        elif len(form.characters) < PART_CHARACTERS:
            self._short.add(form)
        if len(form.characters) < PART_CHARACTERS:
            return
        owners, table = (self._spread, self._of_spread) if form.is_single_word else (self._wholes, self._of_wholes)
        windows = [canonical(window) for window in anchors_of(form)]
        rarest = min(windows, key=lambda window: len(owners.at(window)))
        if form.reach is not Reach.ANYWHERE and len(owners.at(rarest)) >= _MAX_RESTRICTED:
            return
        is_full = len(owners.at(rarest)) == _MAX_AT_WINDOW
        chosen = windows if is_full else [rarest]  # if all are full, each is a match, so that the whole form is covered
        for window in chosen:
            owners.add(window, form)
        table.add(chosen)
        if not form.is_single_word:
            self._telling.add(chosen)
        if not (form.is_free and has_runs) and not form.is_single_word:
            self._anchors.add(chosen)

    def drop(self, form: Form) -> None:
        """Find it no more."""
        windows = Windows(form)
        anchors = [canonical(window) for window in anchors_of(form)]
        self._wholes.remove(anchors, form)
        self._spread.remove(anchors, form)
        self._parts.remove(map(canonical, windows.parts), form)
        self._weak.remove(map(canonical, windows.weak), form)
        self._literal_parts.remove(map(canonical, windows.literal_parts), form)
        (self._words if form.is_single_word else self._short).drop(form)

    def found(self, searched: Searched) -> Iterator[Found]:
        """Where in a text forms are, or parts of them, in no certain order."""
        yield from self._windows_found(searched)
        if self._words or self._short or self._literal_parts:
            yield from self._literals_found(searched)

    def _windows_found(self, searched: Searched) -> Iterator[Found]:
        """Whole forms are looked for within what was found too, since a longer one may begin there."""
        done, ends = 0, dict[Form, int]()
        candidates = self._candidates(searched)
        for at, may_be_of_whole in candidates:
            is_within = at + PART_DIGITS <= done
            if is_within and not may_be_of_whole:
                continue
            window = window_at(searched.characters, at)
            placed = self._whole_at(searched, window, at, ends)
            if placed is None and not is_within:
                placed = self._part_at(searched, window, at)
                searched.spend(_STEPS_OF_CANDIDATE)
            if placed is not None:
                done = placed.end
                yield placed.found
            if searched.is_exhausted:
                yield from self._unexamined(searched, candidates)

    def _unexamined(self, searched: Searched, candidates: Iterable[tuple[int, bool]]) -> Iterator[Found]:
        """All windows that a form has are matches, however they stand there, with as much beside one by which a whole
        form is found as the form may take. Those that overlap are one."""
        owner, start, end = None, 0, 0
        sizes = dict[bytes, int]()
        for at, may_be_of_whole in candidates:
            window = window_at(searched.characters, at)
            first, last = at, at + len(window)
            if may_be_of_whole:
                if (size := sizes.get(window)) is None:
                    size = sizes[window] = self._longest_with(window)
                first, last = max(0, min(first, last - size)), min(len(searched.characters), max(last, first + size))
            if first > end:
                if owner:
                    yield searched.anyhow(owner, start, end)
                owner, start = None, first
            owner = owner or self._any_owner(window)
            start, end = min(start, first), max(end, last)
        if owner:
            yield searched.anyhow(owner, start, end)

    def _longest_with(self, window: bytes) -> int:
        """Letters and digits of the longest form that is found by this window; 0 if none is."""
        keys = [canonical(key) for key in _lookups(window)]
        longest = (forms[0] for key in keys for it in (self._wholes, self._spread) if (forms := it.at(key)))
        return max((len(form.characters) for form in longest), default=0)

    def _any_owner(self, window: bytes) -> Form | None:
        for key in _lookups(window):
            for owners in (self._wholes, self._parts, self._weak, self._spread):
                if forms := owners.at(canonical(key)):
                    return forms[0]
        return None

    def _whole_at(self, searched: Searched, window: bytes, at: int, ends: dict[Form, int]) -> Placed | None:
        """The longest form with this window at `at`. `ends` says where each form that was found ends: a form is not
        looked for again within itself, which would take long in repetitive texts."""
        for key in _lookups(window):
            for form in self._may_begin_at(searched, canonical(key), at):
                searched.spend(_STEPS_OF_COMPARISON)
                if at >= ends.get(form, 0) and (placed := _placed_whole(searched, form, key, at)) is not None:
                    ends[form] = placed.end
                    return placed
        return None

    def _may_begin_at(self, searched: Searched, key: bytes, at: int) -> tuple[Form, ...]:
        spread = self._spread.at(key)
        return (*self._wholes.at(key), *spread) if spread and searched.is_spread(at, len(key)) else self._wholes.at(key)

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
        spread = self._spread.at(key)
        if len(spread) == _MAX_AT_WINDOW and searched.is_spread(at, len(key)):
            yield Placed(at + len(window), searched.anyhow(spread[0], at, at + len(window)))
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
        begins, are_spread = _begins(searched), _spread(searched)
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
            likely = np.flatnonzero(are_spread[first : first + len(some)])
            chosen[likely[self._of_spread.has(sixes[likely])]] = True
            numbers = np.flatnonzero(are_digits(some, PART_DIGITS))
            for table in (self._known, self._telling):
                numbers = numbers[table.has(canonical_keys(some[numbers], PART_DIGITS))]
            chosen[numbers] = True
            places = np.flatnonzero(chosen[start - first : start - first + _BLOCK]) + start - first
            may_be_of_whole = self._of_wholes.has(sixes[places])
            may_be_of_whole |= self._of_wholes.has(canonical_keys(some[places], PART_DIGITS))
            may_be_of_whole |= are_spread[first + places] & self._of_spread.has(sixes[places])
            yield from zip((places + first).tolist(), may_be_of_whole.tolist(), strict=True)

    def _literals_found(self, searched: Searched) -> Iterator[Found]:
        keys, words = eights(searched.data), words_in(searched)
        if self._literal_parts:
            yield from self._literal_parts_found(searched, keys, words.starts)
        if self._words:
            yield from self._words.found(searched, keys, words)
        if self._short:
            yield from self._short.found(searched, keys)

    def _literal_parts_found(self, searched: Searched, keys: Keys, starts: Places) -> Iterator[Found]:
        beside = np.concatenate([starts, starts[starts > 0] - 1])
        is_known = self._windows_of_literals.has(canonical_keys(keys[beside], PART_CHARACTERS))
        for place in beside[is_known].tolist():
            owners = self._literal_parts.at(canonical(searched.data[place : place + PART_CHARACTERS]))
            if 0 < len(owners) <= _MAX_SHARED and (one := searched.literal_part(owners[0], place, PART_CHARACTERS)):
                yield one


def _begins(searched: Searched) -> Flags:
    """Whether each letter or digit is the first of some that have no separators between them, or of some that all
    have."""
    apart = searched.apart
    begins = np.ones(len(searched.places), bool)
    begins[1:] = apart
    begins[2:-1] &= ~(apart[:-2] & apart[1:-1] & apart[2:])
    begins[1:] |= np.frombuffer(searched.characters, np.uint8)[:-1] == BREAK
    return begins


def _spread(searched: Searched) -> Flags:
    """Whether each letter or digit is the first of `PART_CHARACTERS` that all have separators between them."""
    count = len(searched.apart) - PART_CHARACTERS + 2
    are_spread = np.zeros(len(searched.places), bool)
    if count > 0:
        full = searched.apart[:count].copy()
        for at in range(1, PART_CHARACTERS - 1):
            full &= searched.apart[at : at + count]
        are_spread[:count] = full
    return are_spread


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
        searched.spend(_STEPS_OF_COMPARISON)
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
