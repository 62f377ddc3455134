"""Stored artifacts: what they are, whose they are and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from codemode_server.domain.principals import Owner

Kind = Literal["json", "text", "file", "calls"]


@dataclass(frozen=True, slots=True)
class Item:
    """One stored artifact."""

    name: str
    """`x7f3a9c21b04` for the value of that execution; its other items have a second part: `…/stdout`, `…/1`."""
    kind: Kind
    size: int
    mime_type: str = "application/json"
    title: str | None = None
    """The name of a shown file."""


@dataclass(frozen=True, slots=True)
class Part:
    """Where the result of one call is in the file of an item of kind `calls`."""

    start: int
    size: int
    encoding: Literal["json", "blocks"]


@dataclass(frozen=True, slots=True)
class Stored:
    """An item with its owner and its file."""

    item: Item
    owner: Owner
    path: Path
    made_at: float
    parts: Mapping[int, Part] = field(default_factory=dict)
