"""Classifies the layout of texts that a tool returns, and samples their first line.

The layout is one of a few fixed phrases without any content. The sample is content: it is stored only if values may be
stored, and shown quoted, cleaned and cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from codemode_server.text import clean_line

MAX_SAMPLE_CHARACTERS = 80
_MAX_LOOKED_AT = 20_000
_MOSTLY = 0.8
"""Minimum share of lines that match the layout; the rest are headings and notes."""
_MAX_RULE_CHARACTERS = 1_000
_RULE_CELL = re.compile(r":?-{3,}:?")
_MARKUP = re.compile(r"\s*<[A-Za-z!?]")
_HEADING = re.compile(r"#{1,6} \S")
_KEY_VALUE = re.compile(r"\s*[^\s:|][^:|]{0,39}:(?:\s|$)")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,4}[.)])\s")

ONE_LINE = "one line"
LINES = "lines of text"
MARKUP = "XML or HTML"
TABLE = "markdown with a table"
MARKDOWN = "markdown"
ITEMS = "a list, one item a line"
PAIRS = "lines `key: value`"
TABS = "lines of tab-separated fields"
COMMAS = "lines of comma-separated fields"
LAYOUTS = frozenset({ONE_LINE, LINES, MARKUP, TABLE, MARKDOWN, ITEMS, PAIRS, TABS, COMMAS})


@dataclass(frozen=True, slots=True)
class TextSample:
    """The layout of a tool's texts, with a sample."""

    layout: str
    """One of `LAYOUTS`; empty if two texts differed."""
    first_line: str = ""
    """The first line of one text; empty if values must not be stored."""

    @classmethod
    def of(cls, text: str, *, keep_values: bool) -> TextSample:
        lines = [line for line in text[:_MAX_LOOKED_AT].splitlines() if line.strip()]
        first = clean_line(lines[0], MAX_SAMPLE_CHARACTERS) if lines and keep_values else ""
        return cls(layout_of(lines), first)

    def merged(self, other: TextSample) -> TextSample:
        layout = self.layout if self.layout == other.layout else ""
        return TextSample(layout, self.first_line or other.first_line)

    def without_values(self) -> TextSample:
        return replace(self, first_line="")


def layout_of(lines: Sequence[str]) -> str:
    """The layout of a text, from its lines that are not blank."""
    if len(lines) < 2:
        return ONE_LINE
    if _MARKUP.match(lines[0]):
        return MARKUP
    if any("|" in before and _is_table_rule(line) for before, line in pairwise(lines)):
        return TABLE
    if any(_HEADING.match(line) for line in lines):
        return MARKDOWN
    for layout, pattern in ((ITEMS, _ITEM), (PAIRS, _KEY_VALUE)):
        if sum(pattern.match(line) is not None for line in lines) >= _MOSTLY * len(lines):
            return layout
    for layout, separator in ((TABS, "\t"), (COMMAS, ",")):
        fields = {line.count(separator) for line in lines}
        if len(fields) == 1 and 0 not in fields:
            return layout
    return LINES


def _is_table_rule(line: str) -> bool:
    """Whether a line is the rule below a table's header: `|---|:--:|`."""
    if "|" not in line or len(line) > _MAX_RULE_CHARACTERS:
        return False
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(_RULE_CELL.fullmatch(cell.strip()) for cell in cells)
