"""HTML of lines that say what differs: `-` before what was, `+` before what is. Pure.

What differs within a line that has its counterpart is in `<del>` and `<ins>`; sign, words for screen readers and the
strokes of these elements say it without colour.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from codemode_server.text import legible

STYLE = (
    "ul.diff{list-style:none;padding:.5em}ul.diff li{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".diff .whole{text-decoration:none}.spoken{position:absolute;left:-100em}"
)
"""What the page of one question needs; `page.css` has its own."""
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_MIN_ALIKE = 0.4
"""Lines with a smaller common part are marked whole."""
_MAX_COMPARED, _MAX_COMPARED_CHARACTERS = 50, 400
"""Pairs of lines, and their length, in which single words are marked."""
_LABELS = {"-": ("removed", "before: ", "del"), "+": ("added", "now: ", "ins")}


def difference_html(lines: Sequence[str]) -> str:
    """A list with an item for each line, in which nothing is hidden."""
    rows = [legible(line) for line in lines]
    signs = [row[:1] for row in rows]
    contents = [_marked_whole(row[1:], _LABELS[row[:1]][2]) if row[:1] in _LABELS else html.escape(row) for row in rows]
    pairs = [at for at in range(len(rows) - 1) if _is_pair(signs, at)]
    for at in pairs[:_MAX_COMPARED]:
        contents[at : at + 2] = _compared(rows[at][1:], rows[at + 1][1:])
    return f'<ul class="diff">{"".join(map(_item, signs, contents))}</ul>'


def _is_pair(signs: Sequence[str], at: int) -> bool:
    """Whether one line stands for another one: of longer parts it is not known which for which."""
    earlier, later = signs[:at][-1:], signs[at + 2 : at + 3]
    return (signs[at], signs[at + 1]) == ("-", "+") and earlier != ["-"] and later != ["+"]


def _compared(before: str, now: str) -> tuple[str, str]:
    if max(len(before), len(now)) > _MAX_COMPARED_CHARACTERS:
        return _marked_whole(before, "del"), _marked_whole(now, "ins")
    old, new = _WORDS.findall(before), _WORDS.findall(now)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if _common_part(old, new, matcher) < _MIN_ALIKE:
        return _marked_whole(before, "del"), _marked_whole(now, "ins")
    removed, added = "", ""
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        was, became = "".join(old[start:end]), "".join(new[new_start:new_end])
        removed += html.escape(was) if kind == "equal" else _marked(was, "del")
        added += html.escape(became) if kind == "equal" else _marked(became, "ins")
    return removed, added


def _common_part(old: Sequence[str], new: Sequence[str], matcher: SequenceMatcher[str]) -> float:
    """The part of the letters and digits that both lines have: white space and punctuation are in any line."""
    common = sum(_letters(old[it.a : it.a + it.size]) for it in matcher.get_matching_blocks())
    return 2 * common / max(_letters(old) + _letters(new), 1)


def _letters(words: Sequence[str]) -> int:
    return sum(len(it) for it in words if it.isalnum())


def _marked(text: str, element: str) -> str:
    return f"<{element}>{html.escape(text)}</{element}>" if text else ""


def _marked_whole(line: str, element: str) -> str:
    """Without strokes, which would make a long text hard to read; its sign says the same."""
    return f'<{element} class="whole">{html.escape(line)}</{element}>' if line else ""


def _item(sign: str, content: str) -> str:
    if sign not in _LABELS:
        return f'<li class="part">{content}</li>'
    kind, spoken, _ = _LABELS[sign]
    return (
        f'<li class="{kind}"><span aria-hidden="true">{sign}</span><span class="spoken">{spoken}</span>{content}</li>'
    )
