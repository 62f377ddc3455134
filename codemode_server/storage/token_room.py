"""How many privacy tokens a server may still get, and how many characters their values may have, on SQLite.

Both are bounded for each principal, since values are searched for in memory: tokens by their number, and long values by
their characters. A server gets at most half of what the other servers leave, so that room is left for one that needs
tokens later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from codemode_server.domain.errors import TokensFull
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import PersonalValue, TokenLimits

USED = "SELECT count(*), coalesce(sum(characters), 0) FROM privacy_tokens WHERE principal = ? AND lookup IS NOT NULL"
USED_BY_SERVER = f"{USED} AND server = ?"


class Room(NamedTuple):
    """What tokens take."""

    tokens: int = 0
    characters: int = 0
    """Of their values."""

    def plus(self, other: Room) -> Room:
        return Room(self.tokens + other.tokens, self.characters + other.characters)

    def less(self, other: Room) -> Room:
        return Room(max(0, self.tokens - other.tokens), max(0, self.characters - other.characters))

    def or_more(self, other: Room) -> Room:
        return Room(max(self.tokens, other.tokens), max(self.characters, other.characters))


def room_of(values: Iterable[PersonalValue]) -> Room:
    sizes = [len(it.original) for it in values]
    return Room(len(sizes), sum(sizes))


def room_of_new(
    connection: sqlite3.Connection, principal: PrincipalId, keyed: Sequence[tuple[bytes, PersonalValue]]
) -> Room:
    """What those of these values need that have no token. They come with their fingerprints."""
    statement = "SELECT 1 FROM privacy_tokens WHERE principal = ? AND lookup = ?"
    return room_of(value for key, value in keyed if connection.execute(statement, (principal, key)).fetchone() is None)


def without_room(
    connection: sqlite3.Connection, principal: PrincipalId, server: str, needed: Room, limits: TokenLimits
) -> TokensFull | None:
    """Why a server may not get new tokens that need so much; None if it may."""
    used = Room(*connection.execute(USED, (principal,)).fetchone())
    own = Room(*connection.execute(USED_BY_SERVER, (principal, server)).fetchone())
    others = used.less(own)
    if own.tokens + needed.tokens > (share := _share(limits.tokens, others.tokens)):
        return TokensFull(
            f"{needed.tokens:,} of its values need new privacy tokens, and {server} may get "
            f"{max(0, share - own.tokens):,} more: it has {own.tokens:,}, other servers have {others.tokens:,}, "
            + _remedy(limits.tokens, "max_tokens")
        )
    if own.characters + needed.characters > (share := _share(limits.characters, others.characters)):
        return TokensFull(
            f"those of its values that need new privacy tokens have {needed.characters:,} characters, and {server} may "
            f"get tokens for {max(0, share - own.characters):,} more: the values of its tokens have "
            f"{own.characters:,}, those of other servers {others.characters:,}, "
            + _remedy(limits.characters, "max_characters")
        )
    return None


def _share(most: int, others: int) -> int:
    return (most - others + 1) // 2


def _remedy(most: int, setting: str) -> str:
    return (
        f"and a server gets at most half of what the others leave of {most:,} (privacy.{setting} in upstream.yaml). "
        f"Ask for less of it; the user can raise privacy.{setting}, or make room by "
        "`codemode-server privacy forget --server NAME` (`privacy list` says what each server has)"
    )
