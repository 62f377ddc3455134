"""Undoes escapes of URLs, HTML, JSON and programming languages in texts, all of a text at once."""

from __future__ import annotations

from html.entities import html5
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.utf8 import MAX_CODE, Sequences, continue_others, sequences

Codes = NDArray[np.uint32]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MAX_ROUNDS = 3
"""How often escapes are undone: `%2540` takes two."""
_MARKS = (ord("%"), ord("&"), ord("\\"))
_PERCENT, _AMPERSAND, _BACKSLASH = _MARKS
_EQUALS = ord("=")
_PADDING = 12
_NO_DIGIT = 255
_MAX_BYTE = 0xFF
_MAX_NAME_CHARACTERS = 8
_HIGH_SURROGATES, _LOW_SURROGATES = 0xD800 >> 10, 0xDC00 >> 10
_CONTROLS = "abfnrtv"
"""Letters that stand for control characters after a backslash; each ends a word as a line break does."""


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

    def chosen(self, which: Places | Flags) -> _Escapes:
        return _Escapes(self.starts[which], self.lengths[which], self.codes[which], self.are_bytes[which])

    @property
    def are_joined(self) -> Flags:
        """Whether each stands directly after the one before it."""
        joined = np.zeros(len(self.starts), bool)
        joined[1:] = self.starts[1:] == self.starts[:-1] + self.lengths[:-1]
        return joined


class _Marked:
    """The escapes that begin with one mark, while it is found out what each stands for."""

    def __init__(self, starts: Places) -> None:
        count = len(starts)
        self.starts = starts
        self.all = np.arange(count)
        self._lengths, self._codes, self._are_bytes = np.ones(count, np.int64), np.zeros(count, np.int64), self.all < 0

    def put(self, chosen: Places, codes: Places, lengths: Places | int, *, are_bytes: bool = False) -> None:
        """What the chosen ones stand for, and how long they are."""
        self._codes[chosen], self._lengths[chosen], self._are_bytes[chosen] = codes, lengths, are_bytes

    def escapes(self) -> _Escapes:
        found = _Escapes(self.starts, self._lengths, self._codes, self._are_bytes)
        return found.chosen((self._codes > 0) & (self._codes <= MAX_CODE))


_DIGITS = np.full(0x80, _NO_DIGIT, np.int64)
_DIGITS[[ord(digit) for digit in "0123456789abcdefABCDEF"]] = [*range(16), *range(10, 16)]
_IS_WORD = np.array([chr(code).isalnum() for code in range(0x80)])
_AFTER_BACKSLASH = np.zeros(0x80, np.int64)
_AFTER_BACKSLASH[[ord(one) for one in _CONTROLS]] = ord("\n")
_AFTER_BACKSLASH[[ord(one) for one in "\"'/\\`"]] = [ord(one) for one in "\"'/\\`"]


def _named() -> tuple[NDArray[np.uint64], Places]:
    """Names of characters with their semicolon, as numbers in order, and the characters."""
    short = {
        int.from_bytes(name.encode(), "little"): ord(put)
        for name, put in html5.items()
        if name.endswith(";") and len(name) <= _MAX_NAME_CHARACTERS and len(put) == 1
    }
    return np.array(sorted(short), np.uint64), np.array([short[key] for key in sorted(short)], np.int64)


_NAMES, _NAMED = _named()


def unescaped(text: str) -> list[Unescaped]:
    """The text with its escapes undone once, twice and three times, as far as it has any."""
    if not any(chr(mark) in text for mark in _MARKS):
        return []
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    starts = np.arange(len(codes))
    return undone(codes, starts, starts + 1)


def undone(codes: Codes, starts: Places, ends: Places, *, is_mail: bool = False) -> list[Unescaped]:
    """As `unescaped`, of characters that stand at these places of a text. `is_mail`: the first round undoes
    quoted-printable (`=40`) as well, but for letters, digits and single bytes beyond ASCII: `user=ADA` has none."""
    rounds: list[Unescaped] = []
    while len(rounds) < _MAX_ROUNDS:
        found = _found(codes, is_mail=is_mail and not rounds)
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


def _found(codes: Codes, *, is_mail: bool) -> _Escapes:
    padded = np.minimum(np.concatenate([codes, np.zeros(_PADDING, np.uint32)]), 0x7F).astype(np.int64)
    kinds = [_percent(padded), _backslash(padded), _ampersand(padded)]
    if is_mail:
        kinds.append(_quoted_printable(padded))
    found = _Escapes(
        np.concatenate([it.starts for it in kinds]),
        np.concatenate([it.lengths for it in kinds]),
        np.concatenate([it.codes for it in kinds]),
        np.concatenate([it.are_bytes for it in kinds]),
    )
    return _with_surrogates(_with_utf8(found.chosen(np.argsort(found.starts, kind="stable"))))


def _percent(padded: Places) -> _Escapes:
    found = _Marked(np.flatnonzero(padded == _PERCENT))
    _put_digits(found, padded, found.all, 1, 2, are_bytes=True)
    return found.escapes()


def _quoted_printable(padded: Places) -> _Escapes:
    found = _Marked(np.flatnonzero(padded == _EQUALS))
    is_capital = (padded[found.starts + 1] < ord("a")) & (padded[found.starts + 2] < ord("a"))
    _put_digits(found, padded, np.flatnonzero(is_capital), 1, 2, are_bytes=True)
    made = found.escapes()
    joined = made.are_joined
    is_beside_other = joined | np.append(joined[1:], False)
    is_ascii = made.codes < len(_IS_WORD)
    is_word = _IS_WORD[np.where(is_ascii, made.codes, 0)]
    return made.chosen(np.where(is_ascii, ~is_word, is_beside_other))


def _backslash(padded: Places) -> _Escapes:
    found = _Marked(_single_backslashes(padded))
    after = padded[found.starts + 1]
    found.put(found.all, _AFTER_BACKSLASH[after], 2)
    for letter, digits in (("x", 2), ("u", 4), ("U", 8)):
        _put_digits(found, padded, np.flatnonzero(after == ord(letter)), 2, digits, are_bytes=letter == "x")
    _put_in_braces(found, padded, np.flatnonzero((after == ord("u")) & (padded[found.starts + 2] == ord("{"))))
    _put_octal(found, padded)
    return found.escapes()


def _single_backslashes(padded: Places) -> Places:
    """The backslashes that begin an escape: of several in a row, two are one, and only one that is left begins one with
    what follows."""
    at = np.flatnonzero(padded == _BACKSLASH)
    is_first = np.ones(len(at), bool)
    is_first[1:] = at[1:] != at[:-1] + 1
    heads = np.flatnonzero(is_first)
    within = np.arange(len(at)) - np.repeat(heads, np.diff(np.append(heads, len(at))))
    single: Places = at[within % 2 == 0]
    return single


def _put_digits(found: _Marked, padded: Places, chosen: Places, skipped: int, digits: int, *, are_bytes: bool) -> None:
    """Escapes with a certain number of hexadecimal digits after the first characters: `%61`, `\\x61`, `\\u0061`."""
    code, count = _number(padded, found.starts[chosen] + skipped, 16, digits)
    is_right = count == digits
    found.put(chosen[is_right], code[is_right], skipped + digits, are_bytes=are_bytes)


def _put_in_braces(found: _Marked, padded: Places, chosen: Places) -> None:
    """`\\u{61}`."""
    code, digits = _number(padded, found.starts[chosen] + 3, 16, 6)
    is_right = (digits > 0) & (padded[found.starts[chosen] + 3 + digits] == ord("}"))
    found.put(chosen[is_right], code[is_right], digits[is_right] + 4)


def _put_octal(found: _Marked, padded: Places) -> None:
    """`\\141`, and `\\0`, which is a control character."""
    code, digits = _number(padded, found.starts + 1, 8, 3)
    chosen = np.flatnonzero(digits)
    code = code[chosen]
    is_byte = code <= _MAX_BYTE
    code[code == 0] = ord("\n")
    for flags, are_bytes in ((is_byte, True), (~is_byte, False)):
        found.put(chosen[flags], code[flags], digits[chosen[flags]] + 1, are_bytes=are_bytes)


def _ampersand(padded: Places) -> _Escapes:
    found = _Marked(np.flatnonzero(padded == _AMPERSAND))
    is_number = padded[found.starts + 1] == ord("#")
    is_hexadecimal = is_number & (padded[found.starts + 2] | 0x20 == ord("x"))
    _put_entities(found, padded, np.flatnonzero(is_number & ~is_hexadecimal), 2, 10, 7)
    _put_entities(found, padded, np.flatnonzero(is_hexadecimal), 3, 16, 6)
    _put_named_entities(found, padded, np.flatnonzero(~is_number))
    return found.escapes()


def _put_entities(found: _Marked, padded: Places, chosen: Places, skipped: int, base: int, most: int) -> None:
    """`&#97;` and `&#x61;`, also without the semicolon."""
    code, digits = _number(padded, found.starts[chosen] + skipped, base, most)
    chosen, code, digits = chosen[digits > 0], code[digits > 0], digits[digits > 0]
    after = found.starts[chosen] + skipped + digits
    found.put(chosen, code, skipped + digits + (padded[after] == ord(";")))


def _put_named_entities(found: _Marked, padded: Places, chosen: Places) -> None:
    """`&amp;`."""
    at = found.starts[chosen] + 1
    keys, size = np.zeros(len(at), np.uint64), np.zeros(len(at), np.int64)
    for place in range(_MAX_NAME_CHARACTERS):
        is_open = size == 0
        keys[is_open] |= padded[at[is_open] + place].astype(np.uint64) << np.uint64(8 * place)
        size[is_open & (padded[at + place] == ord(";"))] = place + 1
    name = np.minimum(np.searchsorted(_NAMES, keys), len(_NAMES) - 1)
    is_named = (_NAMES[name] == keys) & (size > 0)
    found.put(chosen[is_named], _NAMED[name[is_named]], size[is_named] + 1)


def _number(padded: Places, at: Places, base: int, most: int) -> tuple[Places, Places]:
    """The number that begins at each place, and how many digits it has."""
    code, digits = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for place in range(most):
        digit = _DIGITS[padded[at + place]]
        goes_on = (digits == place) & (digit < base)
        code[goes_on] = code[goes_on] * base + digit[goes_on]
        digits += goes_on
    return code, digits


def _with_utf8(found: _Escapes) -> _Escapes:
    """Bytes in a row that are one character in UTF-8 become it; others are characters of Latin-1."""
    if not (found.are_bytes & (found.codes >= 0x80)).any():
        return found
    data = np.where(found.are_bytes, found.codes, 0)
    return _together(found, sequences(data, continue_others(data) & found.are_joined))


def _with_surrogates(found: _Escapes) -> _Escapes:
    """Two escapes in a row that JSON has in place of one character beyond 0xFFFF become it."""
    is_second = (found.codes >> 10 == _LOW_SURROGATES) & found.are_joined
    starts = np.flatnonzero((found.codes[:-1] >> 10 == _HIGH_SURROGATES) & is_second[1:])
    if not len(starts):
        return found
    codes = 0x10000 + ((found.codes[starts] & 0x3FF) << 10 | found.codes[starts + 1] & 0x3FF)
    return _together(found, Sequences(starts, np.full(len(starts), 2), codes))


def _together(found: _Escapes, parts: Sequences) -> _Escapes:
    """Those escapes that are parts of one character as one; `starts` are numbers of escapes."""
    codes, lengths = found.codes.copy(), found.lengths.copy()
    ends = np.append(found.starts + found.lengths, 0)
    codes[parts.starts] = parts.codes
    lengths[parts.starts] = ends[parts.starts + parts.sizes - 1] - found.starts[parts.starts]
    together = _Escapes(found.starts, lengths, codes, found.are_bytes)
    return together.chosen(~parts.following(len(codes)))
