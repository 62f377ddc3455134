"""Finds the forms that are looked up as they stand in a text: single words, and forms without a window.

Each place costs a bounded number of lookups, whatever number of forms there is. Of forms that are alike in folded bytes
a few are compared with the text; if there are as many, it is a match anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.folding import CLASS, NOTHING
from codemode_server.privacy.form_matches import Found, Searched
from codemode_server.privacy.name_words import Reach
from codemode_server.privacy.original_forms import PART_CHARACTERS, SHORT_CHARACTERS, Form, canonical
from codemode_server.privacy.window_owners import WindowOwners
from codemode_server.privacy.window_table import KEY_BYTES, Keys, WindowTable, canonical_keys

_MAX_ALIKE = 8
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(KEY_BYTES + 1)], np.uint64)

Places = NDArray[np.int64]


class Words(NamedTuple):
    """Where in the folded bytes letters and digits without anything between them begin and end."""

    starts: Places
    ends: Places


def words_in(searched: Searched) -> Words:
    kinds = CLASS[searched.reading.data]
    edges = np.diff(((kinds != 0) & (kinds != NOTHING)).view(np.int8), prepend=0, append=0)
    return Words(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1))


class WordForms:
    """Names of a single word, which count where they stand alone. May be asked in any thread while one changes it."""

    def __init__(self) -> None:
        self._owners = WindowOwners(_MAX_ALIKE)
        self._beginnings = WindowTable()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def add(self, form: Form) -> None:
        for word in _directions(form):
            self._owners.add(word, form)
            self._beginnings.add((word[:KEY_BYTES][::-1],))

    def drop(self, form: Form) -> None:
        self._owners.remove(_directions(form), form)

    def found(self, searched: Searched, keys: Keys, words: Words) -> Iterator[Found]:
        beginnings = keys[words.starts] & _MASKS[np.minimum(words.ends - words.starts, KEY_BYTES)]
        is_known = self._beginnings.has(beginnings)
        for first, last in zip(words.starts[is_known].tolist(), words.ends[is_known].tolist(), strict=True):
            owners = self._owners.at(word := searched.data[first:last])
            counts = (
                searched.written(form, first) if form.characters == word else searched.backwards(form, first, last)
                for form in owners
            )
            yield from _those_that_count(searched, owners, counts, first, last)


class ShortForms:
    """Other forms of fewer than six letters and digits, which count as they are written. May be asked in any thread
    while one changes it."""

    def __init__(self) -> None:
        self._owners = WindowOwners(_MAX_ALIKE)
        """By the literal, which is short too (`forms_of`)."""
        self._sizes: dict[bytes, tuple[int, ...]] = {}
        """The lengths of the literals, the greatest first, by their first characters."""
        self._beginnings = WindowTable()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def add(self, form: Form) -> None:
        literal = form.literal
        start = literal[:SHORT_CHARACTERS]
        self._owners.add(literal, form)
        sizes = self._sizes.get(start, ())
        if len(literal) not in sizes:
            self._sizes[start] = tuple(sorted((*sizes, len(literal)), reverse=True))
        self._beginnings.add((canonical(start),))

    def drop(self, form: Form) -> None:
        self._owners.remove((form.literal,), form)

    def found(self, searched: Searched, keys: Keys) -> Iterator[Found]:
        data = searched.data
        for place in np.flatnonzero(self._beginnings.has(canonical_keys(keys, SHORT_CHARACTERS))).tolist():
            for size in self._sizes.get(data[place : place + SHORT_CHARACTERS], ()):
                owners = self._owners.at(data[place : place + size])
                counts = (searched.written(form, place + len(form.lead)) for form in owners)
                if found := _those_that_count(searched, owners, counts, place, place + size):
                    yield from found
                    break


def _directions(form: Form) -> Iterable[bytes]:
    """As it stands in a text: backwards too if it is long enough to count so."""
    both = {form.characters: None, form.backwards: None}
    return both if len(form.characters) >= PART_CHARACTERS else (form.characters,)


def _those_that_count(
    searched: Searched, owners: tuple[Form, ...], counts: Iterator[Found | None], first: int, last: int
) -> list[Found]:
    found = [one for one in counts if one is not None]
    anywhere = next((form for form in owners if form.reach is Reach.ANYWHERE), None)
    if not found and anywhere and len(owners) == _MAX_ALIKE and searched.is_alone(first, last, anywhere.is_digits):
        found.append(searched.between(anywhere, first, last))
    return found
