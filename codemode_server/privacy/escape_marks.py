"""Finds where a text may have escapes, invisible characters or a wide @, and the windows around those places. Pure.

Each kind is searched for by its first character, so that a text without any costs next to nothing. Entities that are
ordinary in HTML and no part of personal data are none of these places: `&amp;`, `&lt;`, or a `&nbsp;` between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
"""Soft hyphen, zero-width characters and the mark of a byte order: what is shown has none of them."""
WIDE_AT = "\uff20\ufe6b"
NO_BREAK_SPACE = "\u00a0"
_BESIDE = "[0-9A-Za-z@.+_%-]"
_ASCII_MARKS = {
    "%": re.compile(r"%[0-9A-Fa-f]{2}"),
    "&": re.compile(
        r"&(?:#[xX]?[0-9A-Fa-f]|(?:commat|period|lowbar|plus|shy|dash|hyphen|zwj|zwnj|lpar|rpar|num|percnt);"
        r"|nbsp;(?:(?<=[0-9@:]&nbsp;)|(?=[0-9@(+]))|amp;(?:#|[a-z]{2,7};)|[rl]?s?(?:apos|quo);(?=[A-Z])"
        r"|(?:[A-Za-z]{1,2}(?:uml|acute|grave|circ|tilde|cedil|ring|slash|caron|lig)|szlig);)"
    ),
    "\\": re.compile(r"\\(?:u\{?[0-9A-Fa-f]{1,4}|U000|x[0-9A-Fa-f]{2})"),
    "=": re.compile(r"=(?:[0-9A-F]{2}|\r?\n)"),
}
_OTHER_MARKS = {
    **{mark: re.compile(f"{mark}(?:(?<={_BESIDE}{mark})|(?={_BESIDE}))") for mark in INVISIBLE},
    **{mark: re.compile(mark) for mark in WIDE_AT},
    NO_BREAK_SPACE: re.compile(f"{NO_BREAK_SPACE}(?:(?<=@{NO_BREAK_SPACE})|(?=@))"),
}
_REACH = 100
"""Characters beside an escape that are read with it."""


def marked_windows(text: str) -> list[tuple[int, int]]:
    """Start and end of the parts of a text beside such places, in order and without overlaps."""
    windows = list(_windows(text, _ASCII_MARKS))
    if not text.isascii():
        windows += _windows(text, _OTHER_MARKS)
    windows.sort()
    joined: list[tuple[int, int]] = []
    for start, end in windows:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _windows(text: str, marks: dict[str, re.Pattern[str]]) -> Iterator[tuple[int, int]]:
    for mark, pattern in marks.items():
        if mark not in text:
            continue
        found = pattern.search(text)
        while found:
            at = found.start()
            yield max(0, at - _REACH), min(len(text), at + 2 * _REACH)
            found = pattern.search(text, at + _REACH)  # those before it have their whole reach in the window
