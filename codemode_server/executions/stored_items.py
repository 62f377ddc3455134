"""Which artifacts are stored, in the order in which they were, with what each owner and each principal has.

Each question takes time that does not depend on the number of items: a program asks several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from codemode_server.domain.principals import Owner, Principal

Kind = Literal["json", "text", "file", "calls"]
_K = TypeVar("_K")


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


@dataclass(slots=True)
class Group:
    """Items of one owner or one principal."""

    items: dict[str, Stored] = field(default_factory=dict)
    """By name, oldest first."""
    bytes: int = 0

    def add(self, stored: Stored) -> None:
        self.items[stored.item.name] = stored
        self.bytes += stored.item.size

    def remove(self, stored: Stored) -> None:
        del self.items[stored.item.name]
        self.bytes -= stored.item.size

    @property
    def oldest(self) -> Stored | None:
        return next(iter(self.items.values()), None)


class StoredItems:
    """Items by name. The caller allows one thread at a time."""

    def __init__(self) -> None:
        self._by_name: dict[str, Stored] = {}
        self._of_owners: dict[Owner, Group] = {}
        self._of_principals: dict[Principal, Group] = {}
        self.ephemeral = Group()
        """The items of sessions that end with their request."""

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Stored | None:
        return self._by_name.get(name)

    def of(self, owner: Owner) -> Group:
        """Items of an owner."""
        return self._of_owners.get(owner) or Group()

    def of_principals(self) -> Mapping[Principal, Group]:
        """Items of each principal that has any."""
        return self._of_principals

    def add(self, stored: Stored) -> None:
        """Add an item, whose name must be new."""
        self._by_name[stored.item.name] = stored
        self._of_owners.setdefault(stored.owner, Group()).add(stored)
        self._of_principals.setdefault(stored.owner.principal, Group()).add(stored)
        if stored.owner.session.is_ephemeral:
            self.ephemeral.add(stored)

    def remove(self, stored: Stored) -> None:
        del self._by_name[stored.item.name]
        _remove(self._of_owners, stored.owner, stored)
        _remove(self._of_principals, stored.owner.principal, stored)
        if stored.owner.session.is_ephemeral:
            self.ephemeral.remove(stored)


def _remove(groups: dict[_K, Group], key: _K, stored: Stored) -> None:
    """Remove an item of a group, and the group with the last."""
    groups[key].remove(stored)
    if not groups[key].items:
        del groups[key]
