"""Undoes escapes of URLs, HTML, JSON and programming languages in texts, all of a text at once."""

from __future__ import annotations

from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MAX_ROUNDS = 3
"""How often escapes are undone: `%2540` takes two."""
_MARKS = (ord("%"), ord("&"), ord("\\"))
_PERCENT, _AMPERSAND, _BACKSLASH = _MARKS
_PADDING = 12
_NO_DIGIT = 255
_MAX_CODE = 0x10FFFF
_LINE_ENDS = "abfnrtv0"


class Unescaped(NamedTuple):
    """Characters, where in the text each begins and ends, and the numbers of those that an escape stood for."""

    codes: Codes
    starts: Places
    ends: Places
    escapes: Places


class _Escapes(NamedTuple):
    """Where escapes begin, their lengths, the characters that they stand for, and whether those are bytes of UTF-8."""

    starts: Places
    lengths: Places
    codes: Places
    are_bytes: Flags

    def that_are(self, flags: Flags) -> _Escapes:
        return self.chosen(np.flatnonzero(flags))

    def chosen(self, numbers: Places) -> _Escapes:
        return _Escapes(self.starts[numbers], self.lengths[numbers], self.codes[numbers], self.are_bytes[numbers])


_HEX = np.full(0x80, _NO_DIGIT, np.int64)
_HEX[[ord(digit) for digit in "0123456789abcdefABCDEF"]] = [*range(16), *range(10, 16)]
_AFTER_BACKSLASH = np.zeros(0x80, np.int64)
_AFTER_BACKSLASH[[ord(one) for one in _LINE_ENDS]] = ord("\n")
_AFTER_BACKSLASH[[ord(one) for one in "\"'/\\`"]] = [ord(one) for one in "\"'/\\`"]


def _named() -> tuple[NDArray[np.uint64], Places]:
    """Names of characters with their semicolon, as numbers in order, and the characters."""
    short = {
        int.from_bytes(name.encode(), "little"): ord(put)
        for name, put in html5.items()
        if name.endswith(";") and len(name) <= 8 and len(put) == 1
    }
    return np.array(sorted(short), np.uint64), np.array([short[key] for key in sorted(short)], np.int64)


_NAMES, _NAMED = _named()


def unescaped(text: str) -> list[Unescaped]:
    """The text with its escapes undone once, twice and three times, as far as it has any."""
    if not any(chr(mark) in text for mark in _MARKS):
        return []
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    starts = np.arange(len(codes))
    ends = starts + 1
    rounds: list[Unescaped] = []
    while len(rounds) < _MAX_ROUNDS:
        found = _found(codes)
        if not len(found.starts):
            break
        last = found.starts + found.lengths - 1
        codes, ends = codes.copy(), ends.copy()
        codes[found.starts], ends[found.starts] = found.codes, ends[last]
        dropped = np.zeros(len(codes) + 1, np.int8)
        dropped[found.starts + 1] = 1
        dropped[last + 1] -= 1
        stays = np.cumsum(dropped[:-1]) == 0
        is_escape = np.zeros(len(codes), bool)
        is_escape[found.starts] = True
        codes, starts, ends = codes[stays], starts[stays], ends[stays]
        rounds.append(Unescaped(codes, starts, ends, np.flatnonzero(is_escape[stays])))
    return rounds


def _found(codes: Codes) -> _Escapes:
    padded = np.minimum(np.concatenate([codes, np.zeros(_PADDING, np.uint32)]), 0x7F).astype(np.int64)
    kinds = (_percent(padded), _backslash(padded), _ampersand(padded))
    found = _Escapes(
        np.concatenate([it.starts for it in kinds]),
        np.concatenate([it.lengths for it in kinds]),
        np.concatenate([it.codes for it in kinds]),
        np.concatenate([it.are_bytes for it in kinds]),
    )
    return _with_utf8(found.chosen(np.argsort(found.starts, kind="stable")))


def _percent(padded: Places) -> _Escapes:
    at = np.flatnonzero(padded == _PERCENT)
    code, is_right = _hexadecimal(padded, at + 1, 2)
    at = at[is_right]
    return _Escapes(at, np.full(len(at), 3), code[is_right], np.ones(len(at), bool))


def _backslash(padded: Places) -> _Escapes:
    """Of several in a row, two are one; only the last one that is left begins an escape with what follows."""
    is_mark = padded == _BACKSLASH
    at = np.flatnonzero(is_mark)
    is_first = np.ones(len(at), bool)
    is_first[1:] = at[1:] != at[:-1] + 1
    heads = np.flatnonzero(is_first)
    within = np.arange(len(at)) - np.repeat(heads, np.diff(np.append(heads, len(at))))
    at = at[within % 2 == 0]
    after = padded[at + 1]
    codes, lengths, are_bytes = _AFTER_BACKSLASH[after], np.full(len(at), 2), np.zeros(len(at), bool)
    for letter, digits in (("x", 2), ("u", 4), ("U", 8)):
        chosen = np.flatnonzero(after == ord(letter))
        code, is_right = _hexadecimal(padded, at[chosen] + 2, digits)
        chosen = chosen[is_right]
        codes[chosen], lengths[chosen], are_bytes[chosen] = code[is_right], 2 + digits, letter == "x"
    chosen = np.flatnonzero((after == ord("u")) & (padded[at + 2] == ord("{")))
    code, digits_of = _number(padded, at[chosen] + 3, 16, 6)
    is_right = (digits_of > 0) & (padded[at[chosen] + 3 + digits_of] == ord("}"))
    chosen = chosen[is_right]
    codes[chosen], lengths[chosen] = code[is_right], digits_of[is_right] + 4
    return _Escapes(at, lengths, codes, are_bytes).that_are((codes > 0) & (codes <= _MAX_CODE))


def _ampersand(padded: Places) -> _Escapes:
    at = np.flatnonzero(padded == _AMPERSAND)
    codes, lengths = np.zeros(len(at), np.int64), np.full(len(at), 1)
    is_number = padded[at + 1] == ord("#")
    is_hexadecimal = is_number & (padded[at + 2] | 0x20 == ord("x"))
    for chosen, skipped, base, most in ((is_number & ~is_hexadecimal, 2, 10, 7), (is_hexadecimal, 3, 16, 6)):
        places = np.flatnonzero(chosen)
        code, digits = _number(padded, at[places] + skipped, base, most)
        places, code, digits = places[digits > 0], code[digits > 0], digits[digits > 0]
        after = at[places] + skipped + digits
        codes[places], lengths[places] = code, skipped + digits + (padded[after] == ord(";"))
    keys, size = np.zeros(len(at), np.uint64), np.zeros(len(at), np.int64)
    for place in range(8):
        is_open = size == 0
        keys[is_open] |= padded[at[is_open] + 1 + place].astype(np.uint64) << np.uint64(8 * place)
        size[is_open & (padded[at + 1 + place] == ord(";"))] = place + 1
    name = np.minimum(np.searchsorted(_NAMES, keys), len(_NAMES) - 1)
    is_named = (_NAMES[name] == keys) & (size > 0) & ~is_number
    codes[is_named], lengths[is_named] = _NAMED[name[is_named]], size[is_named] + 1
    return _Escapes(at, lengths, codes, np.zeros(len(at), bool)).that_are((codes > 0) & (codes <= _MAX_CODE))


def _hexadecimal(padded: Places, at: Places, digits: int) -> tuple[Places, Flags]:
    """The number that so many digits write, and whether all of them are digits."""
    code, is_right = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    for place in range(digits):
        digit = _HEX[padded[at + place]]
        code, is_right = code * 16 + digit, is_right & (digit != _NO_DIGIT)
    return code, is_right


def _number(padded: Places, at: Places, base: int, most: int) -> tuple[Places, Places]:
    """The number that begins at each place, and how many digits it has."""
    code, digits = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for place in range(most):
        digit = _HEX[padded[at + place]]
        goes_on = (digits == place) & (digit < base)
        code[goes_on] = code[goes_on] * base + digit[goes_on]
        digits += goes_on
    return code, digits


def _with_utf8(found: _Escapes) -> _Escapes:
    """Bytes in a row that are one character in UTF-8 become it; others are characters of Latin-1."""
    if not (found.are_bytes & (found.codes >= 0x80)).any():
        return found
    starts, lengths, codes, are_bytes = found.starts, found.lengths.copy(), found.codes.copy(), found.are_bytes
    joins = np.zeros(len(starts) + 2, bool)
    joins[:-3] = (starts[1:] == starts[:-1] + lengths[:-1]) & are_bytes[1:] & are_bytes[:-1]
    value = np.concatenate([codes, np.zeros(2, np.int64)])
    second, third = value[1:-1], value[2:]
    follows = joins[: len(starts)] & (second & 0xC0 == 0x80)
    is_two = follows & (codes >= 0xC2) & (codes < 0xE0)
    is_three = follows & joins[1:-1] & (third & 0xC0 == 0x80) & (codes >= 0xE0) & (codes < 0xF0)
    sizes = np.concatenate([lengths, np.zeros(2, np.int64)])
    codes[is_two] = ((codes & 0x1F) << 6 | second & 0x3F)[is_two]
    codes[is_three] = ((found.codes & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F)[is_three]
    lengths[is_two | is_three] += sizes[1:-1][is_two | is_three]
    lengths[is_three] += sizes[2:][is_three]
    is_rest = np.zeros(len(starts) + 2, bool)
    is_rest[1:-1] |= is_two | is_three
    is_rest[2:] |= is_three
    return _Escapes(starts, lengths, codes, are_bytes).that_are(~is_rest[:-2])
