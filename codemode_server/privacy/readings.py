"""What a text may say: as it is, with its escapes undone, and what its runs of base64 and of hexadecimal digits encode.

Each reading has folded bytes and, for each, where in the text it comes from. Nothing is decided here. What is decoded
has breaks between runs and wherever it is no text, so that nothing is found across the ends of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.escapes import Unescaped, unescaped
from codemode_server.privacy.folding import BREAK, CLASS, INVISIBLE, Bytes, are_text, fold, fold_codes, fold_utf8

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MIN_BASE64, _MIN_HEX = 8, 12
"""Characters of a run. Six that are encoded take so many."""
_MIN_DECODED = 6
_SHORT_CHARACTERS = 1_000
"""In texts up to here a regular expression says sooner that nothing can be encoded."""
_MAY_BE_BASE64 = re.compile(r"(?=[a-z+/_-]*[A-Z0-9])[A-Za-z0-9+/_-]{8}")
_MAY_BE_HEX = re.compile(rb"(?:[0-9a-f][^0-9a-z]*(?:0x)?){12}")
_REACH = 100
"""Characters beside an escape that are searched with it."""
_NO_DIGIT = 0xFF
_SEXTETS = np.full(256, _NO_DIGIT, np.uint8)
for _value, _pair in enumerate([*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "+-", "/_"]):
    _SEXTETS[[ord(_character) for _character in _pair]] = _value
_SMALL, _LETTERS, _SIGNS = 26, 52, 62
"""What has small letters and signs only is a word, or a path, and what has no letters is a number: base64 of six
characters would be like that by chance once in a thousand times, and of a longer text never."""
_ZERO = np.zeros(1, np.int64)
_PADDING = np.full(3, _NO_DIGIT, np.uint8)
"""Completes the last group."""
_NIBBLES = np.full(256, _NO_DIGIT, np.uint8)
_NIBBLES[[ord(_character) for _character in "0123456789abcdef"]] = range(16)


@dataclass(frozen=True, slots=True)
class Reading:
    """Folded bytes, and where in the text the character or the group of characters of each begins and ends."""

    data: Bytes
    starts: Places | None = None
    """None: each byte is one character of the text."""
    ends: Places | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text these bytes come from."""
        if self.starts is None or self.ends is None:
            return start, end
        return int(self.starts[start]), int(self.ends[end - 1])


def readings(text: str) -> Iterator[Reading]:
    plain = _visible(np.frombuffer(fold(text), np.uint8))
    yield plain
    for one in unescaped(text):
        yield _beside_escapes(one)
    if len(text) > _SHORT_CHARACTERS or _MAY_BE_BASE64.search(text):
        yield from _base64(text)
    if len(text) > _SHORT_CHARACTERS or _MAY_BE_HEX.search(plain.data.tobytes()):
        yield from _base16(plain)


def _visible(data: Bytes) -> Reading:
    is_visible = data != INVISIBLE
    if is_visible.all():
        return Reading(data)
    places = np.flatnonzero(is_visible)
    return Reading(data[places], places, places + 1)


def _beside_escapes(undone: Unescaped) -> Reading:
    """What stands near to an escape; the rest is as it was."""
    data = fold_codes(undone.codes)
    before = np.zeros(len(data) + 2 * _REACH + 1, np.int32)
    before[undone.escapes + _REACH + 1] = 1
    before = np.cumsum(before)
    data[before[2 * _REACH + 1 :] == before[: len(data)]] = BREAK
    return _without_breaks(data, undone.starts, undone.ends)


def _without_breaks(data: Bytes, starts: Places, ends: Places) -> Reading:
    """One break stands for all in a row."""
    stays = data != INVISIBLE
    stays[1:] &= (data[1:] != BREAK) | (data[:-1] != BREAK)
    return Reading(data[stays], starts[stays], ends[stays])


def _base64(text: str) -> Iterator[Reading]:
    """What each run that may be base64 encodes, in all four ways in which groups of four may begin."""
    digits = _SEXTETS[np.frombuffer(text.encode("latin-1", "replace"), np.uint8)]
    is_letter, is_small = digits < _LETTERS, (digits >= _SMALL) & (digits < _LETTERS)
    places = _runs(digits != _NO_DIGIT, _MIN_BASE64, is_letter, (digits < _SIGNS) & ~is_small)
    digits = np.append(np.append(digits, np.uint8(_NO_DIGIT))[places], _PADDING)
    for phase in range(min(4, len(places))):
        decoded = _bytes_of_sextets(digits[phase:])
        chosen = _texts(decoded)
        if len(chosen):
            first = phase + 4 * (chosen // 3) + chosen % 3  # a byte is of two digits
            last = np.minimum(first + 1, len(places) - 1)
            yield _without_breaks(fold_utf8(decoded[chosen]), places[first], places[last] + 1)


def _bytes_of_sextets(digits: Bytes) -> Bytes:
    """Three bytes for each four digits; `_NO_DIGIT`, which is no text, for those of which a digit is none."""
    count = len(digits) // 4
    first, second, third, fourth = (digits[at : 4 * count : 4] for at in range(4))
    decoded = np.empty((count, 3), np.uint8)
    decoded[:, 0] = first << 2 | second >> 4
    decoded[:, 1] = second << 4 | third >> 2
    decoded[:, 2] = third << 6 | fourth & 0x3F
    is_none = [one == _NO_DIGIT for one in (first, second, third, fourth)]
    for column in range(3):
        decoded[is_none[column] | is_none[column + 1], column] = _NO_DIGIT
    return decoded.ravel()


def _base16(plain: Reading) -> Iterator[Reading]:
    """What each run of hexadecimal digits encodes, whatever separates them, from its first and from its second digit
    on."""
    origins = _without_prefixes(plain, np.flatnonzero(CLASS[plain.data]))
    nibbles = _NIBBLES[plain.data[origins]]
    places = _runs(nibbles != _NO_DIGIT, _MIN_HEX)
    digits = np.append(nibbles, np.uint8(_NO_DIGIT))[places]
    for phase in range(min(2, len(digits) - 1)):
        decoded = _bytes_of_nibbles(digits[phase:])
        chosen = _texts(decoded)
        if len(chosen):
            first = phase + 2 * chosen
            begins, ends = (origins[np.minimum(places[first + at], len(origins) - 1)] for at in range(2))
            starts = begins if plain.starts is None else plain.starts[begins]
            stops = ends + 1 if plain.ends is None else plain.ends[ends]
            yield _without_breaks(fold_utf8(decoded[chosen]), starts, stops)


def _without_prefixes(plain: Reading, origins: Places) -> Places:
    """These places of letters and digits but for those of `0x`."""
    data = plain.data[origins]
    if b"0x" not in data.tobytes():
        return origins
    is_prefix = np.zeros(len(data) + 1, bool)
    is_prefix[:-2] = (data[:-1] == ord("0")) & (data[1:] == ord("x"))
    is_prefix[1:] |= is_prefix[:-1].copy()
    return origins[~is_prefix[:-1]]


def _bytes_of_nibbles(digits: Bytes) -> Bytes:
    """A byte for each two digits; `_NO_DIGIT`, which is no text, where one is none."""
    count = len(digits) // 2
    high, low = (digits[at : 2 * count : 2] for at in range(2))
    decoded: Bytes = (high << 4 | low & 0x0F).astype(np.uint8)
    decoded[(high == _NO_DIGIT) | (low == _NO_DIGIT)] = _NO_DIGIT
    return decoded


def _runs(is_digit: Flags, least: int, *needed: Flags) -> Places:
    """All positions of the runs that have so many digits at least, and some of each kind that is needed. Each run is
    followed by the position after it."""
    edges = np.diff(is_digit.view(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    is_long = ends - starts >= least
    for flags in needed:
        before = np.concatenate([_ZERO, np.cumsum(flags)])
        is_long &= before[ends] > before[starts]
    starts, ends = starts[is_long], ends[is_long]
    sizes = ends - starts + 1
    places: Places = np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return places


def _texts(decoded: Bytes) -> Places:
    """The positions of those parts that are text and long enough, each followed by a byte that is none, if there is
    one."""
    places = _runs(are_text(decoded), _MIN_DECODED)
    inside: Places = places[places < len(decoded)]
    return inside
