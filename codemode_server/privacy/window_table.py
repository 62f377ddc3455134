"""Tells for each place in a text, of all places at once, whether a known window may begin there.

A window is the number of its bytes. The table of bits that knows windows says yes for a few that it does not know, and
no for no known one. It grows as windows are added, and is filled anew only when it doubles.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Flags = NDArray[np.bool_]

_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Two tables with different ones rarely say yes to the same unknown window."""
_WORD = (1 << 64) - 1
_MIN_BITS, _SPARSE_BITS = 16, 5
"""At most one in 32 entries is used."""
KEY_BYTES = 8
_DIGITS_MASK, _DIGITS = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x3030303030303030)


class _Bits(NamedTuple):
    entries: bytearray
    shift: int


class WindowTable:
    """May be asked in any thread while one adds to it."""

    def __init__(self, *, is_second: bool = False) -> None:
        self._multiplier = _MULTIPLIERS[is_second]
        self._keys = array("Q")
        self._bits = _empty(_MIN_BITS)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, windows: Iterable[bytes]) -> None:
        """Canonical windows of at most eight bytes."""
        keys = [int.from_bytes(window, "big") for window in windows]
        self._keys.extend(keys)
        entries, shift = self._bits
        if len(self._keys) << _SPARSE_BITS > len(entries):
            bits = (len(self._keys) << _SPARSE_BITS).bit_length()
            entries, shift = made = _empty(bits)
            known = np.frombuffer(self._keys, np.uint64)
            np.frombuffer(entries, np.uint8)[self._slots(known, shift)] = 1
            del known
            self._bits = made  # once it is full: another thread may ask meanwhile
        for key in keys:
            entries[(key * self._multiplier & _WORD) >> shift] = 1

    def has(self, keys: Keys) -> Flags:
        entries, shift = self._bits
        found: Flags = np.frombuffer(entries, bool)[self._slots(keys, shift)]
        return found

    def _slots(self, keys: Keys, shift: int) -> NDArray[np.int64]:
        return ((keys * np.uint64(self._multiplier)) >> np.uint64(shift)).view(np.int64)


def _empty(bits: int) -> _Bits:
    return _Bits(bytearray(1 << bits), 64 - bits)


def eights(data: bytes) -> Keys:
    """The number of the eight bytes from each position on; zeros follow the last byte."""
    return np.ndarray((len(data),), "<u8", data + bytes(KEY_BYTES), strides=(1,))


def canonical_keys(keys: Keys, size: int) -> Keys:
    """The numbers of the first `size` of each eight bytes, as `WindowTable` has them: the same backwards."""
    shift = np.uint64(64 - 8 * size)
    at_end = keys << shift
    least: Keys = np.minimum(at_end >> shift, at_end.byteswap())
    return least


def are_digits(keys: Keys, size: int) -> Flags:
    """Whether the first `size` of each eight folded bytes are digits; separators must not be among them."""
    mask = np.uint64((1 << 8 * size) - 1)
    found: Flags = (keys & (_DIGITS_MASK & mask)) == (_DIGITS & mask)
    return found
