"""Reports: what one function finds, for a command to print and a page to show. A feature provides its own as `report`.

Texts of rows may hold anything that programs and servers wrote; who shows them masks secrets, escapes and bounds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from codemode_server.records.executions import Records

Kind = Literal["text", "moment", "size", "number", "status", "execution"]
"""How the cells of a column are shown: a text, a time in seconds since 1970, bytes, a count, one of a few words, or an
id."""
Cell = str | float | tuple[str, ...] | None
"""A tuple is a text in lines, the first of them the main one."""
_KEY_CHARACTERS = 16


def key_of(name: str) -> str:
    """The digest that addresses and forms of the pages have in place of a name that a server or a file gave."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[Cell, ...]
    link: str = ""
    """The path of its own page or file, below that of the pages; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Report:
    rows: Sequence[Row]
    about: Sequence[str] = ()
    """Lines for above the rows."""
    more: int = 0
    """Number of rows that are left out."""
    older: str = ""
    """Where the rows before these begin, for `read`; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Text:
    """The page of one row: facts by their names, and a text in lines."""

    title: str
    facts: Sequence[tuple[str, str]]
    text: str


@dataclass(frozen=True, slots=True)
class Download:
    name: str
    """As a program wrote it."""
    content: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    name: str
    """Its path below that of the pages."""
    title: str
    columns: Sequence[Column]
    read: Callable[[Records, str], Awaitable[Report]]
    """The rows. The text is one of the `choices`, or the `older` of a report, or empty at first. Raises
    `CodemodeError`."""
    empty: str
    """What is said in place of rows."""
    item: Callable[[Records, str], Awaitable[Text | Download | None]] | None = None
    """What is at `name/KEY`; None if nothing is (any more). Raises `CodemodeError`."""
    is_downloaded: bool = False
    """True if that is a file."""
    choices: Sequence[str] = ()
    """What a person can choose to see; at first the first of them."""
    is_live: bool = False
    """True if the page follows what happens."""
