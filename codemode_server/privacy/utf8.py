"""Finds the characters of several bytes in UTF-8, all of a text at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_CODE = 0x10FFFF
_MAX_SIZE = 4
_MIN_LEAD = 0xC2
_SIZES = np.zeros(256, np.int64)
for _first, _end, _size in ((_MIN_LEAD, 0xE0, 2), (0xE0, 0xF0, 3), (0xF0, 0xF5, 4)):
    _SIZES[_first:_end] = _size
_LEAD_BITS = np.array([0, 0, 0x1F, 0x0F, 0x07])
"""The bits of the first byte that are of the character, by the number of bytes."""


class Sequences(NamedTuple):
    """Where sequences of two to four bytes begin, their sizes, and the characters that they encode."""

    starts: Places
    sizes: Places
    codes: Places

    def following(self, count: int) -> Flags:
        """Which of so many bytes are in a sequence and not the first of it."""
        follows = np.zeros(count, bool)
        for at in range(1, _MAX_SIZE):
            follows[self.starts[self.sizes > at] + at] = True
        return follows


def continue_others(data: NDArray[np.integer]) -> Flags:
    """Whether each byte is one that may only follow others."""
    found: Flags = data & 0xC0 == 0x80
    return found


def sequences(data: NDArray[np.integer], continues: Flags) -> Sequences:
    """The sequences in bytes; `continues`: whether each byte continues one and stands directly after the byte before
    it."""
    follows = np.concatenate([continues, np.zeros(_MAX_SIZE, bool)])
    starts = np.flatnonzero((data >= _MIN_LEAD) & follows[1 : len(data) + 1])
    sizes = _SIZES[data[starts]]
    is_complete = sizes > 0
    for at in range(2, _MAX_SIZE):
        is_complete &= (sizes <= at) | follows[starts + at]
    starts, sizes = starts[is_complete], sizes[is_complete]
    codes = data[starts] & _LEAD_BITS[sizes]
    for at in range(1, _MAX_SIZE):
        has_more = sizes > at
        codes[has_more] = codes[has_more] << 6 | data[starts[has_more] + at] & 0x3F
    is_character = codes <= MAX_CODE
    return Sequences(starts[is_character], sizes[is_character], codes[is_character])
