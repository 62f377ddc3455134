"""Where each value of a YAML or JSON text stands, for edits that leave all other bytes as they are.

The parser's nodes don't say it: an alias is the node of its anchor, and a block ends where the next one begins, after
the comments in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.cyaml import CSafeLoader
from ruamel.yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent


@dataclass(slots=True)
class Piece:
    """One value of the text."""

    start: int
    end: int
    """After its last character; comments after it are not part of it."""
    column: int
    is_flow: bool = False
    is_alias: bool = False
    text: str = ""
    members: list[tuple[Piece, Piece]] | None = None
    items: list[Piece] | None = field(default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written there."""
        return self.start == self.end

    def member(self, key: str) -> Piece | None:
        return next((value for name, value in self.members or () if name.text == key), None)


def layout(text: str) -> Piece | None:
    """The value that the text is; None if it holds none. The text must be one valid document."""
    loader: Any = CSafeLoader(text)
    for _ in range(2):  # the stream and the document begin
        if not loader.check_event():
            return None
        loader.get_event()
    if not loader.check_event(MappingStartEvent, SequenceStartEvent, ScalarEvent):
        return None
    return _piece(loader, text)


def _piece(loader: Any, text: str) -> Piece:
    event = loader.get_event()
    start, column = event.start_mark.index, event.start_mark.column
    if isinstance(event, ScalarEvent):
        end = event.end_mark.index
        written = len(text[start:end].rstrip())  # a block of text ends where the next key begins
        return Piece(start, start + written, column, text=str(event.value))
    if isinstance(event, AliasEvent):
        return Piece(start, event.end_mark.index, column, is_alias=True)
    found = Piece(start, start, column, is_flow=bool(event.flow_style))
    if isinstance(event, MappingStartEvent):
        found.members = list(_members(loader, text))
        last = found.members[-1] if found.members else None
        ends = [piece.end for piece in last] if last else []
    else:
        found.items = list(_items(loader, text))
        ends = [found.items[-1].end] if found.items else []
    closing = loader.get_event()
    found.end = closing.end_mark.index if found.is_flow else max([start, *ends])
    return found


def _members(loader: Any, text: str) -> Iterator[tuple[Piece, Piece]]:
    while not loader.check_event(MappingEndEvent):
        yield _piece(loader, text), _piece(loader, text)


def _items(loader: Any, text: str) -> Iterator[Piece]:
    while loader.check_event(MappingStartEvent, SequenceStartEvent, ScalarEvent, AliasEvent):
        yield _piece(loader, text)
