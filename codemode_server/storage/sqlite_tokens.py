"""The privacy tokens of all principals, on SQLite; implements `domain.privacy_tokens.TokenStore`.

Values are encrypted, with a key of their own, and found by a fingerprint that needs the key too. The row of a token
that was forgotten stays without its value: so its number is not given again, and other products notice.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from codemode_server.domain.errors import JournalUnavailable, TokensFull
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import TOKEN, KnownToken, PersonalValue, TokenChanges, TokenLimits, label_of
from codemode_server.off_loop import run_sized
from codemode_server.private_cipher import PrivateCipher, ValueUnreadable
from codemode_server.storage.database_thread import DatabaseThread

KEY_NAME = "privacy.key"
_COLUMNS = "label, number, kind, value, made_at, used_at"
_FEW = 200
"""So many values are decrypted on the event loop."""
_USED_SECONDS = 3_600.0
"""How exactly the time of the last use is stored."""
_EXPIRY_SECONDS = 60.0
"""How often what has expired is looked for."""
_NEXT_CHANGE = "(SELECT coalesce(max(change), 0) + 1 FROM privacy_tokens WHERE principal = ?)"


class TokenCipher(PrivateCipher):
    """The cipher of the values in one state folder. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / KEY_NAME, "the key of the privacy tokens", "what they stand for", JournalUnavailable)


class SqliteTokens:
    """`limits` gives how many tokens a principal may have, and for how long they stand for their values."""

    def __init__(
        self,
        thread: DatabaseThread,
        cipher: TokenCipher,
        limits: Callable[[], TokenLimits] = TokenLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._thread = thread
        self._cipher = cipher
        self._limits = limits
        self._clock = clock
        self._expired_at: dict[PrincipalId, float] = {}

    async def tokens_for(self, principal: PrincipalId, values: Sequence[PersonalValue]) -> Sequence[str]:
        now, most = self._clock(), self._limits().tokens

        def find_or_make(connection: sqlite3.Connection) -> list[str] | None:
            self._expire(connection, principal, now)
            room = _Room(connection, principal, most)
            tokens: list[str] = []
            for value in values:
                if (token := self._token_for(connection, principal, value, now, room)) is None:
                    return None
                tokens.append(token)
            return tokens

        made = await self._thread.run(find_or_make)
        if made is None:
            raise TokensFull(
                f"there are {most:,} privacy tokens already, the maximum (privacy.max_tokens in upstream.yaml); "
                "`codemode-server privacy forget --older-than 30d` makes room"
            )
        return made

    def _token_for(
        self, connection: sqlite3.Connection, principal: PrincipalId, value: PersonalValue, now: float, room: _Room
    ) -> str | None:
        """None: the value has no token, and there is no room for another one."""
        normal = f"{value.kind}\0{value.normal}".encode("utf-8", "surrogatepass")
        lookup = self._cipher.fingerprint(normal, f"privacy/{principal}")
        found = connection.execute(
            "SELECT label, number, used_at FROM privacy_tokens WHERE principal = ? AND lookup = ?", (principal, lookup)
        ).fetchone()
        if found is not None:
            label, number, used_at = found
            if now - used_at > _USED_SECONDS:
                connection.execute(
                    "UPDATE privacy_tokens SET used_at = ? WHERE (principal, label, number) = (?, ?, ?)",
                    (now, principal, label, number),
                )
            return f"<{label}_{number}>"
        if not room.take():
            return None
        label = label_of(value.kind)
        (number,) = connection.execute(
            "SELECT coalesce(max(number), 0) + 1 FROM privacy_tokens WHERE principal = ? AND label = ?",
            (principal, label),
        ).fetchone()
        token = f"<{label}_{number}>"
        written = json.dumps([value.original, value.is_number]).encode()
        sealed = self._cipher.encrypt(written, _place(principal, token))
        connection.execute(
            "INSERT INTO privacy_tokens (principal, label, number, kind, lookup, value, made_at, used_at, change)"  # noqa: S608
            f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, {_NEXT_CHANGE})",
            (principal, label, number, value.kind, lookup, sealed, now, now, principal),
        )
        return token

    async def changes(self, principal: PrincipalId, since: int) -> TokenChanges:
        now = self._clock()

        def select(connection: sqlite3.Connection) -> tuple[list[Any], int]:
            self._expire(connection, principal, now)
            is_all = "" if since else " AND value IS NOT NULL"
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM privacy_tokens WHERE principal = ? AND change > ?{is_all} ORDER BY change",  # noqa: S608
                (principal, since),
            ).fetchall()
            (last,) = connection.execute(
                "SELECT coalesce(max(change), 0) FROM privacy_tokens WHERE principal = ?", (principal,)
            ).fetchone()
            return rows, last

        rows, last = await self._thread.run(select)
        return TokenChanges(await run_sized(len(rows) > _FEW, self._known, principal, rows), last)

    async def find(self, principal: PrincipalId, tokens: Collection[str]) -> Sequence[KnownToken]:
        names = [(found[1], int(found[2])) for token in tokens if (found := TOKEN.fullmatch(token))]
        now = self._clock()

        def select(connection: sqlite3.Connection) -> list[Any]:
            self._expire(connection, principal, now)
            statement = f"SELECT {_COLUMNS} FROM privacy_tokens WHERE (principal, label, number) = (?, ?, ?)"  # noqa: S608
            rows = (connection.execute(statement, (principal, *name)).fetchone() for name in names)
            return [row for row in rows if row is not None]

        rows = await self._thread.run(select)
        return await run_sized(len(rows) > _FEW, self._known, principal, rows)

    async def existing(self, principal: PrincipalId, tokens: Collection[str]) -> set[str]:
        """Those of these tokens that stand for something; nothing is decrypted."""
        names = [(found[1], int(found[2])) for token in tokens if (found := TOKEN.fullmatch(token))]
        now = self._clock()

        def select(connection: sqlite3.Connection) -> set[str]:
            self._expire(connection, principal, now)
            statement = (
                "SELECT 1 FROM privacy_tokens WHERE (principal, label, number) = (?, ?, ?) AND value IS NOT NULL"
            )
            return {
                f"<{label}_{number}>"
                for label, number in names
                if connection.execute(statement, (principal, label, number)).fetchone()
            }

        return await self._thread.run(select)

    async def all(self, principal: PrincipalId) -> Sequence[KnownToken]:
        found = (await self.changes(principal, 0)).tokens
        return sorted(
            (it for it in found if it.original is not None), key=lambda it: (it.kind, len(it.token), it.token)
        )

    async def forget(self, principal: PrincipalId, tokens: Collection[str]) -> int:
        names = [(found[1], int(found[2])) for token in tokens if (found := TOKEN.fullmatch(token))]

        def forget(connection: sqlite3.Connection) -> int:
            return sum(
                connection.execute(
                    f"UPDATE privacy_tokens SET lookup = NULL, value = NULL, change = {_NEXT_CHANGE}"  # noqa: S608
                    " WHERE (principal, label, number) = (?, ?, ?) AND value IS NOT NULL",
                    (principal, principal, *name),
                ).rowcount
                for name in names
            )

        return await self._thread.run(forget, is_durable=True)

    def _expire(self, connection: sqlite3.Connection, principal: PrincipalId, now: float) -> None:
        seconds = self._limits().expire_seconds
        if seconds is None or now - self._expired_at.get(principal, 0.0) < _EXPIRY_SECONDS:
            return
        self._expired_at[principal] = now
        connection.execute(
            f"UPDATE privacy_tokens SET lookup = NULL, value = NULL, change = {_NEXT_CHANGE}"  # noqa: S608
            " WHERE principal = ? AND value IS NOT NULL AND used_at < ?",
            (principal, principal, now - seconds),
        )

    def _known(self, principal: PrincipalId, rows: Sequence[Any]) -> list[KnownToken]:
        """A value that can't be read any more counts as forgotten: its key is another one."""
        known: list[KnownToken] = []
        for label, number, kind, sealed, made_at, used_at in rows:
            token, original, is_number = f"<{label}_{number}>", None, False
            if sealed is not None:
                try:
                    original, is_number = json.loads(self._cipher.decrypt(sealed, _place(principal, token)))
                except ValueUnreadable:
                    original = None
            known.append(KnownToken(token, kind, original, is_number, made_at, used_at))
        return known


class _Room:
    """How many tokens a principal may still get. Counted when the first one is made."""

    def __init__(self, connection: sqlite3.Connection, principal: PrincipalId, most: int) -> None:
        self._connection = connection
        self._principal = principal
        self._most = most
        self._left: int | None = None

    def take(self) -> bool:
        if self._left is None:
            (count,) = self._connection.execute(
                "SELECT count(*) FROM privacy_tokens WHERE principal = ? AND lookup IS NOT NULL", (self._principal,)
            ).fetchone()
            self._left = self._most - count
        self._left -= 1
        return self._left >= 0


def _place(principal: PrincipalId, token: str) -> str:
    return f"privacy/{principal}/{token}"
