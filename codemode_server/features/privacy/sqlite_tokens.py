"""The privacy tokens of all principals, on SQLite, shared by the products on one state folder.

Values are encrypted, with a key of their own, and found by a fingerprint that needs the key too. The row of a token
that was forgotten stays without its value until `KEPT_CHANGES` later changes, so that other products notice. That with
the highest number of its label stays for good, so that no number is given again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from codemode_server.domain.errors import TokensFull
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import TOKEN, KnownToken, PersonalValue, TokenChanges, TokenLimits, label_of
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.server_texts import TokenCipher
from codemode_server.support.off_loop import run_sized
from codemode_server.support.private_cipher import ValueUnreadable

KEPT_CHANGES = 10_000
"""Rows of so many of the latest changes of a principal stay. A process that has missed more reads all tokens anew."""
_TO_DELETE = """
SELECT principal, label, number FROM privacy_tokens AS row WHERE value IS NULL
AND change <= (SELECT max(change) FROM privacy_tokens WHERE principal = row.principal) - ?
AND number < (SELECT max(number) FROM privacy_tokens WHERE principal = row.principal AND label = row.label)
LIMIT ?
"""
_DELETED_AT_ONCE = 500
_COLUMNS = "label, number, kind, value, made_at, used_at, server"
_FEW = 200
"""So many values are decrypted on the event loop."""
_USED_SECONDS = 3_600.0
"""How exactly the time of the last use is stored."""
_AT_ONCE = 1_000
"""Values that get their tokens in one transaction, which others wait for."""
_EXPIRY_SECONDS = 60.0
"""How often what has expired is looked for."""
_NEXT_CHANGE = "(SELECT coalesce(max(change), 0) + 1 FROM privacy_tokens WHERE principal = ?)"


class SqliteTokens:
    """`limits` gives how much room the tokens of a principal have, and for how long they stand for their values."""

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

    async def tokens_for(
        self, principal: PrincipalId, values: Sequence[PersonalValue], server: str = ""
    ) -> Sequence[str]:
        """The token of each value; a value that has none gets one. A token is never used for another value. Raises
        `TokensFull`: the server may not get so many; none was made, unless others got some at the same time;
        `JournalUnavailable`: the store can't be used."""
        now, limits = self._clock(), self._limits()
        lookups = await run_sized(len(values) > _FEW, self._lookups, principal, values)
        keyed: dict[bytes, PersonalValue] = {}
        for lookup, value in zip(lookups, values, strict=True):
            keyed.setdefault(lookup, value)
        tokens: dict[bytes, str] = {}

        def find_or_make(connection: Connection, batch: Sequence[bytes]) -> TokensFull | None:
            self._expire(connection, principal, now)
            counted = batch if tokens else keyed  # all of them have to fit before the first is made
            new = [it for it in counted if _token_of(connection, principal, it, now) is None]
            if new and (refusal := _without_room(connection, principal, server, len(new), limits.tokens)):
                return refusal
            for lookup in batch:
                token = _token_of(connection, principal, lookup, now)
                tokens[lookup] = token or self._make(connection, principal, lookup, keyed[lookup], server, now)
            return None

        lookups_left = [*keyed]
        while lookups_left:
            batch, lookups_left = lookups_left[:_AT_ONCE], lookups_left[_AT_ONCE:]
            if (refusal := await self._thread.run(partial(find_or_make, batch=batch))) is not None:
                raise refusal
        return [tokens[lookup] for lookup in lookups]

    def _lookups(self, principal: PrincipalId, values: Sequence[PersonalValue]) -> list[bytes]:
        normals = (f"{value.kind}\0{value.normal}".encode("utf-8", "surrogatepass") for value in values)
        return [self._cipher.fingerprint(normal, f"privacy/{principal}") for normal in normals]

    def _make(
        self,
        connection: Connection,
        principal: PrincipalId,
        lookup: bytes,
        value: PersonalValue,
        server: str,
        now: float,
    ) -> str:
        label = label_of(value.kind)
        (number,) = connection.exec_driver_sql(
            "SELECT coalesce(max(number), 0) + 1 FROM privacy_tokens WHERE principal = ? AND label = ?",
            (principal, label),
        ).fetchone()
        token = f"<{label}_{number}>"
        written = json.dumps([value.original, value.is_number]).encode()
        sealed = self._cipher.encrypt(written, _place(principal, token))
        connection.exec_driver_sql(
            "INSERT INTO privacy_tokens"  # noqa: S608
            " (principal, label, number, kind, lookup, value, made_at, used_at, server, change)"
            f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {_NEXT_CHANGE})",
            (principal, label, number, value.kind, lookup, sealed, now, now, server, principal),
        )
        return token

    async def changes(self, principal: PrincipalId, since: int) -> TokenChanges:
        """Changes after the change of this number; all valid tokens for 0, and where the changes are no longer
        known."""
        now = self._clock()

        def select(connection: Connection) -> tuple[list[Any], int, bool]:
            self._expire(connection, principal, now)
            (last,) = connection.exec_driver_sql(
                "SELECT coalesce(max(change), 0) FROM privacy_tokens WHERE principal = ?", (principal,)
            ).fetchone()
            start = 0 if since < last - KEPT_CHANGES else since
            which = "" if start else " AND value IS NOT NULL"
            rows = connection.exec_driver_sql(
                f"SELECT {_COLUMNS} FROM privacy_tokens WHERE principal = ? AND change > ?{which} ORDER BY change",  # noqa: S608
                (principal, start),
            ).fetchall()
            return rows, last, start == 0

        rows, last, are_all = await self._thread.run(select)
        return TokenChanges(await run_sized(len(rows) > _FEW, self._known, principal, rows), last, are_all=are_all)

    async def find(self, principal: PrincipalId, tokens: Collection[str]) -> Sequence[KnownToken]:
        """Those of these tokens that the principal has or had."""
        names = _names_of(tokens)
        now = self._clock()

        def select(connection: Connection) -> list[Any]:
            self._expire(connection, principal, now)
            statement = f"SELECT {_COLUMNS} FROM privacy_tokens WHERE (principal, label, number) = (?, ?, ?)"  # noqa: S608
            return [row for name in names for row in connection.exec_driver_sql(statement, (principal, *name))]

        rows = await self._thread.run(select)
        return await run_sized(len(rows) > _FEW, self._known, principal, rows)

    async def all(self, principal: PrincipalId) -> Sequence[KnownToken]:
        """All that stand for something."""
        found = (await self.changes(principal, 0)).tokens
        return sorted(
            (it for it in found if it.original is not None), key=lambda it: (it.kind, len(it.token), it.token)
        )

    async def forget(self, principal: PrincipalId, tokens: Collection[str]) -> int:
        """Make these tokens stand for nothing, in every product; returns how many did until now."""
        names = _names_of(tokens)

        def forget(connection: Connection) -> int:
            return sum(
                connection.exec_driver_sql(
                    f"UPDATE privacy_tokens SET lookup = NULL, value = NULL, change = {_NEXT_CHANGE}"  # noqa: S608
                    " WHERE (principal, label, number) = (?, ?, ?) AND value IS NOT NULL",
                    (principal, principal, *name),
                ).rowcount
                for name in names
            )

        return await self._thread.run(forget, is_durable=True)

    def _expire(self, connection: Connection, principal: PrincipalId, now: float) -> None:
        seconds = self._limits().expire_seconds
        if seconds is None or now - self._expired_at.get(principal, 0.0) < _EXPIRY_SECONDS:
            return
        self._expired_at[principal] = now
        connection.exec_driver_sql(
            f"UPDATE privacy_tokens SET lookup = NULL, value = NULL, change = {_NEXT_CHANGE}"  # noqa: S608
            " WHERE principal = ? AND value IS NOT NULL AND used_at < ?",
            (principal, principal, now - seconds),
        )

    def _known(self, principal: PrincipalId, rows: Sequence[Any]) -> list[KnownToken]:
        """A value that can't be read any more counts as forgotten: its key is another one."""
        known: list[KnownToken] = []
        for label, number, kind, sealed, made_at, used_at, server in rows:
            token, original, is_number = f"<{label}_{number}>", None, False
            if sealed is not None:
                try:
                    original, is_number = json.loads(self._cipher.decrypt(sealed, _place(principal, token)))
                except ValueUnreadable:
                    original = None
            known.append(KnownToken(token, kind, original, is_number, made_at, used_at, server))
        return known


def _without_room(
    connection: Connection, principal: PrincipalId, server: str, needed: int, most: int
) -> TokensFull | None:
    """Why a server may not get so many new tokens; None if it may. It gets at most half of what the others leave, so
    that room is left for a server that needs tokens later."""
    used = "SELECT count(*) FROM privacy_tokens WHERE principal = ? AND lookup IS NOT NULL"
    (all_,) = connection.exec_driver_sql(used, (principal,)).fetchone()
    (own,) = connection.exec_driver_sql(f"{used} AND server = ?", (principal, server)).fetchone()
    share = (most - (all_ - own) + 1) // 2
    if own + needed <= share:
        return None
    return TokensFull(
        f"{needed:,} of its values need new privacy tokens, and {server} may get {max(0, share - own):,} more: it has "
        f"{own:,}, other servers have {all_ - own:,}, and a server gets at most half of what the others leave of "
        f"{most:,} (privacy.max_tokens in upstream.yaml). Ask for less of it; the user can raise privacy.max_tokens, "
        "or make room by `codemode-server privacy forget --server NAME` (`privacy list` says what each server has)"
    )


def _names_of(tokens: Iterable[str]) -> list[tuple[str, int]]:
    return [(found[1], int(found[2])) for token in tokens if (found := TOKEN.fullmatch(token))]


def _token_of(connection: Connection, principal: PrincipalId, lookup: bytes, now: float) -> str | None:
    found = connection.exec_driver_sql(
        "SELECT label, number, used_at FROM privacy_tokens WHERE principal = ? AND lookup = ?", (principal, lookup)
    ).fetchone()
    if found is None:
        return None
    label, number, used_at = found
    if now - used_at > _USED_SECONDS:
        connection.exec_driver_sql(
            "UPDATE privacy_tokens SET used_at = ? WHERE (principal, label, number) = (?, ?, ?)",
            (now, principal, label, number),
        )
    return f"<{label}_{number}>"


def _place(principal: PrincipalId, token: str) -> str:
    return f"privacy/{principal}/{token}"


def delete_forgotten_tokens(_before: float, connection: Connection) -> int:
    """Delete rows of tokens that were forgotten or have expired, once other processes have noticed it; returns the
    number of deleted rows. A transaction of the caller deletes a few."""
    rows = connection.exec_driver_sql(_TO_DELETE, (KEPT_CHANGES, _DELETED_AT_ONCE)).fetchall()
    connection.exec_driver_sql(
        "DELETE FROM privacy_tokens WHERE (principal, label, number) = (?, ?, ?) AND value IS NULL", rows
    )
    return len(rows)
