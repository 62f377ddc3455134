"""How many tokens a text costs a model: an estimate, since vocabularies are megabytes and differ by model.

Fitted to OpenAI's o200k on tool definitions, JSON rows, Python and prose; `make bench` prints how far off it is
against the real vocabulary. Long texts are sampled, so the cost stays under a millisecond.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9\x00-\x7f]|[^\sA-Za-z0-9]+|\n[ \t]*")
_SAMPLE = 8_192
_LONG_PUNCTUATION = 12
"""Characters; longer runs are rare in JSON and code, and cost more for each."""
_FIRST_EAST_ASIAN = "\u2e80"
"""From here on, with emoji too, a character costs about a token."""


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, within about a tenth for JSON, code and prose in Latin letters."""
    if len(text) <= 3 * _SAMPLE:
        return round(weigh_tokens(text))
    middle = len(text) // 2
    parts = (text[:_SAMPLE], text[middle : middle + _SAMPLE], text[-_SAMPLE:])
    return round(sum(weigh_tokens(part) for part in parts) * len(text) / (3 * _SAMPLE))


def weigh_tokens(text: str) -> float:
    """The estimate for all of a short text, not rounded: what the lines of a text weigh adds up to what it weighs."""
    total = 0.0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isascii() and first.isalpha():
            total += 1 if len(piece) <= 8 else 1 + (len(piece) - 8) / 6
        elif first.isdigit() and first.isascii():
            total += (len(piece) + 2) // 3
        elif first == "\n":
            total += 0.6
        elif first.isascii():
            total += max(1.0, len(piece) / (3 if len(piece) <= _LONG_PUNCTUATION else 2))
        else:
            total += 0.6 if first < _FIRST_EAST_ASIAN else 1.1
    return total
