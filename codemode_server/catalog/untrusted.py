"""Makes upstream text safe to show: as one line, as a docstring, or as a Python literal.

Invisible characters are removed from prose. Literals keep them, escaped, since an argument must reach the upstream
exactly as declared.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from codemode_server.support.text import clean, escaped

_FEW = 10

SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+|(?<=[。！？])")


def prose(text: object, limit: int) -> str:
    """Several lines of visible characters, without common indent or runs of blank lines; says how much was cut."""
    if not isinstance(text, str):
        return ""
    cut = text[: 2 * limit]  # bounds the work, and usually fills the limit after cleaning
    lines = [line.rstrip().expandtabs(4) for line in clean(cut).split("\n")]
    # The first line of a Python docstring has no indent.
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line]
    indent = min(indents, default=0)
    lines = [lines[0].lstrip(), *(line[indent:] for line in lines[1:])]
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n ")
    return _cut(joined, limit, len(text) - len(cut))


def one_line(text: object, limit: int) -> str:
    """One line of visible characters; says how much was cut."""
    if not isinstance(text, str):
        return ""
    cut = text[: 2 * limit]
    return _cut(" ".join(clean(cut).split()), limit, len(text) - len(cut))


def last_lines(text: str, limit: int) -> str:
    """The last whole lines within the limit, joined by ` | `; if the last one is longer, its beginning."""
    shown: list[str] = []
    for line in reversed([" ".join(line.split()) for line in clean(text).split("\n")]):
        limit -= len(line) + 3
        if line and limit < 0:
            return " | ".join(shown) or line[:limit] + "…"
        shown[:0] = [line] if line else []
    return " | ".join(shown)


def docstring(text: str, indent: str = "") -> str:
    """A docstring with exactly this text, which is clean already."""
    body = text.replace("\\", "\\\\")
    if "\n" not in text:
        # An unescaped quote at the end would join the closing three.
        last = '\\"' if body.endswith('"') else ""
        body = body.removesuffix('"') if last else body
        return f'{indent}"""{_without_triple_quotes(body)}{last}"""'
    first, *rest = _without_triple_quotes(body).split("\n")
    lines = [first, *(f"{indent}{line}" if line else "" for line in rest)]
    return f'{indent}"""' + "\n".join(lines) + f'\n{indent}"""'


def _without_triple_quotes(text: str) -> str:
    return text.replace('"""', '""\\"')


def literal(value: str | int | float | None) -> str:
    """The Python literal of a JSON scalar, as printable text on one line."""
    text = escaped(repr(value))
    if isinstance(value, str) and text[0] == "'" and '"' not in text and "\\'" not in text:
        return f'"{text[1:-1]}"'
    return text


def short_repr(value: Any, limit: int, depth: int = 0) -> str:
    """A bounded representation of a JSON value on one line, for any size and depth."""
    if depth > 4:
        return "..."
    if isinstance(value, dict):
        few = [
            f"{short_repr(key, 60, depth + 1)}: {short_repr(value[key], limit, depth + 1)}"
            for key in islice(value, _FEW)
        ]
        text = "{" + ", ".join(few + ["..."] * (len(value) > _FEW)) + "}"
    elif isinstance(value, list):
        few = [short_repr(item, limit, depth + 1) for item in value[:_FEW]]
        text = "[" + ", ".join(few + ["..."] * (len(value) > _FEW)) + "]"
    elif isinstance(value, str):
        text = literal(value[: limit + 1])
    else:
        text = literal(value) if is_small(value) else "..."
    return text if len(text) <= limit else f"{text[:limit]}…"


def is_small(value: object) -> bool:
    """True if an integer fits into 64 bits (beyond, servers differ), and for other scalars."""
    return not isinstance(value, int) or abs(value) < 2**64


def _cut(text: str, limit: int, already: int) -> str:
    missing = max(0, len(text) - limit) + already
    return f"{text[:limit].rstrip()} … ({missing:,} more characters)" if missing > 0 else text
