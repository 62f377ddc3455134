"""Compiles patterns of the user, in a notation in which every pattern is searched in linear time.

`#` is a digit, `@` a letter, `?` a letter or digit, `{3}` or `{3,8}` repeats the character before it, and a backslash
takes the next character as it is. Everything else stands for itself: `EMP-#{6}`, `@@-????`. Matches neither begin nor
end inside a word.
"""

from __future__ import annotations

import re

MAX_PATTERN_CHARACTERS = 100
MAX_REPEATS = 64
_CLASSES = {"#": "[0-9]", "@": r"[^\W\d_]", "?": r"[^\W_]"}
_REPEAT = re.compile(r"\{(\d{1,3})(?:,(\d{1,3}))?\}")


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression of a pattern.

    Raises:
        ValueError: the pattern is empty or too long, or a repetition is wrong.
    """
    if not text or len(text) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"a pattern has 1 to {MAX_PATTERN_CHARACTERS} characters")
    made: list[str] = []
    has_range = False
    at = 0
    while at < len(text):
        character = text[at]
        if character == "{":
            found = _REPEAT.match(text, at)
            if not found or not made or made[-1].endswith("}"):
                raise ValueError(
                    "`{` repeats the character before it: `#{6}` or `#{6,8}`; a backslash before it takes it as it is"
                )
            least, most = int(found[1]), int(found[2] or found[1])
            if not 1 <= least <= most <= MAX_REPEATS:
                raise ValueError(f"a repetition is from 1 to {MAX_REPEATS}")
            if least != most and has_range:
                raise ValueError("a pattern has one repetition with a range at most")
            has_range = has_range or least != most
            made.append(f"{{{least},{most}}}")
            at = found.end()
            continue
        if character == "\\":
            at += 1
            if at == len(text):
                raise ValueError("nothing follows the backslash at the end")
            made.append(re.escape(text[at]))
        else:
            made.append(_CLASSES.get(character) or re.escape(character))
        at += 1
    return re.compile(rf"(?<![^\W_]){''.join(made)}(?![^\W_])")
