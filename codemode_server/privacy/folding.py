"""Folds characters to bytes, so that spellings of one text become equal, without case, accents and forms of letters.

A letter of a Latin alphabet, and one of another that looks like it, becomes that of ASCII; a digit of any script a
digit; another letter one of the bytes above 127, of which some letters share one. Everything else is a separator.
"""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from codemode_server.privacy.utf8 import continue_others, sequences

Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint32]
Flags = NDArray[np.bool_]

INVISIBLE = 0
SPACE = 0x20
BREAK = 0xFE
"""No character: what stands on its two sides is never one match."""
_UNKNOWN = 0xFF
_NON_ASCII = 0x80
_OTHER_LETTERS = 126
_LOOK_ALIKES = dict(
    zip("аеорсухкмнтвіјѕԁһӏգցոսαορτυνικεβηχγ", "aeopcyxkmhtbijsdhlqgnuaoptuvikebnxy", strict=True),
)
"""Letters of Cyrillic, Armenian and Greek that are taken for Latin ones, in small letters."""


def _ascii(code: int) -> int:
    return ord(chr(code).lower()) if chr(code).isprintable() else SPACE


_TRANSLATION = bytes(_ascii(code) if code < _NON_ASCII else SPACE for code in range(256))
_TABLE = np.full(0x110000, _UNKNOWN, np.uint8)
"""The byte of each code point, filled when a code point is first met."""
_TABLE[:_NON_ASCII] = np.frombuffer(_TRANSLATION, np.uint8, _NON_ASCII)

DIGIT, LETTER, NOTHING = 1, 2, 3
CLASS = np.zeros(256, np.uint8)
"""What a folded byte is: 0 is a separator."""
CLASS[ord("0") : ord("9") + 1] = DIGIT
CLASS[ord("a") : ord("z") + 1] = LETTER
CLASS[_NON_ASCII:BREAK] = LETTER
CLASS[BREAK] = NOTHING
SEPARATORS = bytes(code for code in range(256) if not CLASS[code])


def fold(text: str) -> bytes:
    """A byte for each character."""
    if text.isascii():
        return text.encode("ascii").translate(_TRANSLATION)
    return fold_codes(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)).tobytes()


def fold_codes(codes: Codes) -> Bytes:
    """A byte for each code point."""
    folded = _TABLE[codes]
    unknown = folded == _UNKNOWN
    if unknown.any():
        for code in np.unique(codes[unknown]).tolist():
            _TABLE[code] = _other(code)
        folded = _TABLE[codes]
    return folded


def _other(code: int) -> int:
    if 0xD800 <= code <= 0xDFFF:
        return SPACE
    character = chr(code)
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return INVISIBLE
    if (digit := unicodedata.digit(character, -1)) >= 0:
        return ord("0") + digit
    if category[0] not in "LN" and not unicodedata.normalize("NFKC", character).isalnum():
        return _punctuation(unicodedata.normalize("NFKC", character))
    plain = unicodedata.normalize("NFKD", character).casefold()[:1] or character
    plain = _LOOK_ALIKES.get(plain, plain)
    if plain.isascii() and plain.isalnum():
        return ord(plain)
    return _NON_ASCII + ord(plain) % _OTHER_LETTERS


def _punctuation(text: str) -> int:
    """A punctuation mark in another form, such as the wide @."""
    return _ascii(ord(text)) if len(text) == 1 and text.isascii() else SPACE


def fold_utf8(data: Bytes) -> Bytes:
    """As many bytes as `data` has: that of a character stands where its encoding begins, and `INVISIBLE` after it. What
    is no text becomes `BREAK`."""
    folded = _UTF8_STARTS[data]
    if (data >= _NON_ASCII).any():
        found = sequences(data, continue_others(data))
        folded[found.starts] = fold_codes(found.codes.astype(np.uint32))
        folded[found.following(len(data))] = INVISIBLE
    return folded


def are_text(data: Bytes) -> Flags:
    """Whether each byte is of a character in UTF-8 that is shown, or that ends a line."""
    are_shown: Flags = _UTF8_STARTS[data] != BREAK
    if (data >= _NON_ASCII).any():
        found = sequences(data, continue_others(data))
        are_shown[found.starts] = True
        are_shown |= found.following(len(data))
    return are_shown


_UTF8_STARTS = np.full(256, BREAK, np.uint8)
_UTF8_STARTS[:_NON_ASCII] = np.frombuffer(_TRANSLATION, np.uint8, _NON_ASCII)
_UTF8_STARTS[[code for code in range(_NON_ASCII) if not chr(code).isprintable() and chr(code) not in "\t\n\r"]] = BREAK
