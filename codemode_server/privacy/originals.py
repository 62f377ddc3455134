"""Finds the originals of tokens in any text: as they are, disguised, or in parts.

Disguises are letter case, separators, the reverse, escapes, base64 and hexadecimal digits. `readings` undoes encodings,
`folding` spellings, `original_forms` says what is searched for, `form_index` searches, and `form_matches` says what
counts. Time is linear in the text and hardly depends on the number of originals; an original takes some kilobytes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from itertools import chain

from codemode_server.domain.privacy_tokens import part_of
from codemode_server.known_values import Span
from codemode_server.privacy.form_index import FormIndex
from codemode_server.privacy.form_matches import Found, Searched
from codemode_server.privacy.original_forms import Form, forms_of
from codemode_server.privacy.readings import readings

_MIN_CHARACTERS = 4
"""Shorter originals stand in many words."""
_PART_CHARACTERS = 6
"""What is left of a part beside a whole original tells as little as a shorter part."""
_PIECE_CHARACTERS = 1 << 18
"""Bounds the memory of one search."""
_OVERLAP_CHARACTERS = 1 << 13
"""What two pieces of a long text have in common: an original that its disguise makes longer may be missed between."""
_MAX_EXHAUSTED = 2
"""Only texts that are made for it are ever exhausted."""
_MARGIN = 64
"""Characters at the ends of a piece in which nothing is found: there, what is cut seems to stand alone."""


class Originals:
    """The originals of one principal. May be used in several threads at once."""

    def __init__(self, *, only_wholes: bool = False) -> None:
        """With `only_wholes`, originals are found between words only, and no parts of them but for what a search has
        no time to examine; after some such pieces of texts, others are taken for parts unsearched."""
        self._only_wholes = only_wholes
        self._exhausted = 0
        """Pieces of texts that a search had no time to examine."""
        self._lock = threading.Lock()
        self._forms: dict[str, tuple[Form, ...]] = {}
        self._index = FormIndex()
        self._discards = 0
        """Tokens discarded since the index was built; its tables still have their windows."""

    def add(self, original: str, token: str, *others: str) -> None:
        """From now on `original` is found as `token`, and so are these other spellings of it."""
        if len(original) < _MIN_CHARACTERS:
            return
        spellings = (form for it in (original, *others) for form in forms_of(it, token, only_wholes=self._only_wholes))
        forms = tuple(form for form in spellings if len(form.literal) >= _MIN_CHARACTERS)
        with self._lock:
            if token not in self._forms:
                self._forms[token] = forms
                self._index.take(forms)

    def discard(self, token: str) -> None:
        """No original is found as `token` any more."""
        with self._lock:
            if (forms := self._forms.pop(token, None)) is None:
                return
            self._discards += 1
            if self._discards > len(self._forms):  # searches go on with the former index until this one is complete
                self._index, self._discards = FormIndex(chain.from_iterable(self._forms.values())), 0
                return
            for form in forms:
                self._index.drop(form)

    def spans(self, text: str) -> list[Span]:
        """Start, end and token of each original, or `part_of` the token, in order and without overlaps."""
        if not self._forms or len(text) < _MIN_CHARACTERS:
            return []
        found, index = list[Found](), self._index
        for begin in range(0, max(1, len(text) - _OVERLAP_CHARACTERS), _PIECE_CHARACTERS):
            end = begin + _PIECE_CHARACTERS + _OVERLAP_CHARACTERS
            piece = text[begin:end]
            if self._only_wholes and self._exhausted >= _MAX_EXHAUSTED:
                found.append(Found(begin, begin + len(piece), False, next(iter(self._forms))))
                continue
            least = _MARGIN if begin else 0
            most = len(piece) - (_MARGIN if end < len(text) else 0)
            is_exhausted = False
            for reading in readings(piece):
                searched = Searched(piece, reading)
                found += (
                    Found(begin + one.start, begin + one.end, one.is_whole, one.token)
                    for one in index.found(searched)
                    if one.start >= least and one.end <= most
                )
                is_exhausted |= searched.is_exhausted
            self._exhausted += is_exhausted
        return _merged(found)


def _merged(found: list[Found]) -> list[Span]:
    """Spans that do not overlap: of whole originals, each with the token of the longest in it, and of what parts have
    besides."""
    wholes = _united([one for one in found if one.is_whole])
    parts = _united([one for one in found if not one.is_whole])
    spans = [(one.start, one.end, one.token) for one in wholes]
    ends = [one.end for one in wholes]
    for part in parts:
        start = part.start
        for whole in wholes[bisect_right(ends, start) :]:
            if whole.start >= part.end:
                break
            if whole.start - start >= _PART_CHARACTERS:
                spans.append((start, whole.start, part_of(part.token)))
            start = max(start, whole.end)
        if part.end - start >= _PART_CHARACTERS or start == part.start < part.end:
            spans.append((start, part.end, part_of(part.token)))
    return sorted(spans)


def _united(found: list[Found]) -> list[Found]:
    """What overlaps is one, with the token of the longest."""
    united: list[Found] = []
    for one in sorted(found):
        if united and one.start < united[-1].end:
            last = united[-1]
            united[-1] = Found(last.start, max(last.end, one.end), one.is_whole, max(last, one, key=_length).token)
        else:
            united.append(one)
    return united


def _length(found: Found) -> int:
    return found.end - found.start
