"""Values that the editors of all syntaxes share: spans of a text, paths of keys, and why an edit is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from codemode_server.domain.errors import CodemodeError, SettingsError

Path: TypeAlias = tuple[str, ...]
"""Keys from the root of a file; in a list, the `name` of an item."""


class HostFileNotEditable(CodemodeError):
    """Raised when a host's file can't be edited; nothing has been changed then."""

    code = "not_editable"

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)

    @classmethod
    def of(cls, error: SettingsError) -> HostFileNotEditable:
        """What our own parsers found in a text without a name."""
        first = str(error).splitlines()[0].lstrip(":- ")
        return cls(re.sub(r"^(\d+):", r"line \1:", first))


@dataclass(frozen=True, slots=True)
class Splice:
    """Characters `start` to `end` are replaced by `text`."""

    start: int
    end: int
    text: str


def applied(text: str, splices: Sequence[Splice]) -> str:
    """The text after all of them; they don't overlap and are in order."""
    parts: list[str] = []
    at = 0
    for splice in splices:
        parts += (text[at : splice.start], splice.text)
        at = splice.end
    return "".join((*parts, text[at:]))


def line_of(text: str, offset: int) -> int:
    """The number of the line, from 1."""
    return text.count("\n", 0, offset) + 1


def nested(path: Path, value: Any) -> Any:
    """The value within mappings of these keys."""
    for key in reversed(path):
        value = {key: value}
    return value
