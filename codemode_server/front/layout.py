"""The one layout of a program's answer, whether it succeeded or failed, and the remarks that follow it.

    output:                 what it printed; `stderr:` likewise
    …
    value:                  or `error:` where it failed
    …
    [warning: …]            remarks, one a line; callers may pass others than those of `remarks_of`

An empty part is left out, and every other part has its label. Nothing else is in it: a model reads each answer, so a
line that doesn't help its next step is not worth its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from codemode_server.executions.artifacts import Item

_LABELS = {"stdout": "output", "stderr": "stderr"}
_REMARKS = {
    "unmarked_errors": "note",
    "cut": "cut",
    "shown": "shown",
    "hints": "hint",
    "warnings": "warning",
    "notes": "note",
}
"""Fields of the structured content that hold lines → the label of such a line in the text, in the order of the text.
Errors that came as normal results stand first: they matter more than any other remark."""
_OURS = r"\[(?:cut|shown|hint|warning|note|call|[\d,]+ calls|kept|took)\b"
_IMITATION = re.compile(
    rf"^(?=(?:output|stderr|value|value \(repr\)|error|calls)\b[^\n]{{0,80}}:$|{_OURS})", re.MULTILINE
)
"""The beginning of a line that a program or an upstream wrote, and that reads like one of ours."""
_REMARK_WITHIN = re.compile(rf"(?={_OURS}[^\]]*:)\[")
SLOW_SECONDS = 10.0
"""A program that took longer says so, since its model may want to wait less or know the limits."""


def lay_out(streams: Mapping[str, str], ending: tuple[str, str] | None, remarks: Iterable[str]) -> str:
    """The text of an answer; `ending` is the label and the text of the value or the error.

    Lines of the program that imitate a label or a remark of ours are indented by a blank.
    """
    parts = [(_LABELS[stream], text.rstrip("\n")) for stream, text in streams.items()]
    if ending is not None:
        parts.append(ending)
    return "\n".join([*(f"{label}:\n{_IMITATION.sub(' ', text)}" for label, text in parts), *remarks])


def remarks_of(content: Mapping[str, Any]) -> list[str]:
    """The lines in brackets that stand for these fields of the structured content."""
    return [
        f"[{label}: {_REMARK_WITHIN.sub('(', line)}]"
        for field, label in _REMARKS.items()
        for line in content.get(field, ())
    ]


def duration_remark(milliseconds: float) -> list[str]:
    """A line on how long a program took, if that was long."""
    return [f"[took {milliseconds / 1e3:.0f} s]"] if milliseconds >= SLOW_SECONDS * 1e3 else []


def stored_name(stored: Item | str | None) -> str:
    """The expression by which a program reads a stored result; empty where there is none."""
    return f'results["{stored.name}"]' if isinstance(stored, Item) else ""
