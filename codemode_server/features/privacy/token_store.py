"""The privacy tokens of all principals, shared by the processes that use one database.

Values are encrypted with a key of their own, and found by a fingerprint that needs the key too. If a token is
forgotten, its row loses the value and is deleted after `KEPT_CHANGES` further changes, so that other processes notice.
The row with the highest number of a label is never deleted, so that no number is used twice. Numbers and changes are
unique in the table: if two processes assign the same one at a time, one of them repeats its transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, bindparam, case, delete, func, insert, select, update

from codemode_server.domain.errors import TokensFull
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import TOKEN, KnownToken, PersonalValue, TokenChanges, TokenLimits, label_of
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tables import privacy_tokens
from codemode_server.storage.token_cipher import TokenCipher
from codemode_server.support.off_loop import run_sized
from codemode_server.support.private_cipher import ValueUnreadable

T = TypeVar("T")

KEPT_CHANGES = 10_000
"""Rows of so many of the latest changes of a principal stay. A process that has missed more reads all tokens anew."""
_DELETED_AT_ONCE = 500
_FEW = 200
"""So many values are decrypted on the event loop."""
_USED_SECONDS = 3_600.0
"""How exactly the time of the last use is stored."""
_AT_ONCE = 1_000
"""Values that get their tokens in one transaction, which others wait for, or are looked for by one statement."""
_EXPIRY_SECONDS = 60.0
"""How often what has expired is looked for."""

_c = privacy_tokens.c
_COLUMNS = _c.label, _c.number, _c.kind, _c.value, _c.made_at, _c.used_at, _c.server
_IS_OWN = _c.principal == bindparam("of_principal")
_IS_LABELLED = _IS_OWN, _c.label == bindparam("of_label")
_IS_NAMED = *_IS_LABELLED, _c.number.in_(bindparam("numbers", expanding=True))
_IS_ONE = *_IS_LABELLED, _c.number == bindparam("of_number")
_LAST_CHANGE = select(func.coalesce(func.max(_c.change), 0)).where(_IS_OWN)
_LAST_NUMBER = select(func.coalesce(func.max(_c.number), 0)).where(*_IS_LABELLED)
_BY_LOOKUP = (
    select(_c.lookup, _c.label, _c.number, _c.used_at)
    .where(_IS_OWN, _c.lookup.in_(bindparam("lookups", expanding=True)))
    .order_by(_c.label, _c.number)
)
_COUNTS = select(func.count(), func.count(case((_c.server == bindparam("of_server"), 1)))).where(
    _IS_OWN, _c.lookup.is_not(None)
)
_INSERT = insert(privacy_tokens)
_USE = update(privacy_tokens).where(*_IS_ONE).values(used_at=bindparam("now"))
_CHANGES = select(*_COLUMNS).where(_IS_OWN, _c.change > bindparam("since")).order_by(_c.change)
_ALL = select(*_COLUMNS).where(_IS_OWN, _c.value.is_not(None)).order_by(_c.change)
_NAMED = select(*_COLUMNS).where(*_IS_NAMED)
_VALID = select(_c.label, _c.number).where(_c.value.is_not(None)).order_by(_c.label, _c.number)
_VALID_OF_NAMES = _VALID.where(*_IS_NAMED)
_EXPIRED = _VALID.where(_IS_OWN, _c.used_at < bindparam("before"))
_FORGET = update(privacy_tokens).where(*_IS_ONE).values(lookup=None, value=None, change=bindparam("new_change"))
_other = privacy_tokens.alias().c
_TO_DELETE = (
    select(_c.principal.label("of_principal"), _c.label.label("of_label"), _c.number.label("of_number"))
    .where(
        _c.value.is_(None),
        _c.change
        <= select(func.max(_other.change)).where(_other.principal == _c.principal).scalar_subquery()
        - bindparam("kept"),
        _c.number
        < select(func.max(_other.number))
        .where(_other.principal == _c.principal, _other.label == _c.label)
        .scalar_subquery(),
    )
    .limit(bindparam("most"))
)
_DELETE = delete(privacy_tokens).where(*_IS_ONE, _c.value.is_(None))


class TokenStore:
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
        lookups = await run_sized(len(values) > _FEW, self._lookups, principal, values)
        keyed: dict[bytes, PersonalValue] = {}
        for lookup, value in zip(lookups, values, strict=True):
            keyed.setdefault(lookup, value)
        now, most = self._clock(), self._limits().tokens
        tokens: dict[bytes, str] = {}

        def find_or_make(
            connection: Connection, batch: Sequence[bytes], counted: Sequence[bytes]
        ) -> dict[bytes, str] | TokensFull:
            found = _found(connection, principal, counted)
            needed = len(counted) - len(found)
            if needed and (refusal := _without_room(connection, principal, server, needed, most)):
                return refusal
            known = {it: found[it] for it in batch if it in found}
            names = [_name(principal, it) for it in known.values() if now - it.used_at > _USED_SECONDS]
            if names:
                connection.execute(_USE, [it | {"now": now} for it in names])
            new = {it: keyed[it] for it in batch if it not in found}
            made = self._make(connection, principal, new, server, now) if new else {}
            return made | {lookup: _token(row.label, row.number) for lookup, row in known.items()}

        for batch in _batches([*keyed]):
            # All of them have to fit before the first is made.
            step = partial(find_or_make, batch=batch, counted=batch if tokens else [*keyed])
            if isinstance(made := await self._run(principal, step), TokensFull):
                raise made
            tokens |= made
        return [tokens[lookup] for lookup in lookups]

    def _lookups(self, principal: PrincipalId, values: Sequence[PersonalValue]) -> list[bytes]:
        normals = (f"{value.kind}\0{value.normal}".encode("utf-8", "surrogatepass") for value in values)
        return [self._cipher.fingerprint(normal, f"privacy/{principal}") for normal in normals]

    def _make(
        self,
        connection: Connection,
        principal: PrincipalId,
        values: Mapping[bytes, PersonalValue],
        server: str,
        now: float,
    ) -> dict[bytes, str]:
        own = {"of_principal": principal}
        last_change = connection.execute(_LAST_CHANGE, own).scalar_one()
        numbers: dict[str, int] = {}
        rows, tokens = [], {}
        for change, (lookup, value) in enumerate(values.items(), start=last_change + 1):
            label = label_of(value.kind)
            if label not in numbers:
                numbers[label] = connection.execute(_LAST_NUMBER, {**own, "of_label": label}).scalar_one()
            numbers[label] += 1
            token = tokens[lookup] = _token(label, numbers[label])
            written = json.dumps([value.original, value.is_number]).encode()
            row = {"principal": principal, "label": label, "number": numbers[label], "kind": value.kind}
            row |= {"lookup": lookup, "value": self._cipher.encrypt(written, _place(principal, token))}
            rows.append(row | {"made_at": now, "used_at": now, "change": change, "server": server})
        connection.execute(_INSERT, rows)
        return tokens

    async def changes(self, principal: PrincipalId, since: int) -> TokenChanges:
        """Changes after the change of this number; all valid tokens for 0, and where the changes are no longer
        known."""

        def read(connection: Connection) -> tuple[Sequence[Any], int, bool]:
            own = {"of_principal": principal}
            last = connection.execute(_LAST_CHANGE, own).scalar_one()
            if since and since >= last - KEPT_CHANGES:
                return connection.execute(_CHANGES, {**own, "since": since}).all(), last, False
            return connection.execute(_ALL, own).all(), last, True

        rows, last, are_all = await self._run(principal, read)
        return TokenChanges(await run_sized(len(rows) > _FEW, self._known, principal, rows), last, are_all=are_all)

    async def find(self, principal: PrincipalId, tokens: Collection[str]) -> Sequence[KnownToken]:
        """Those of these tokens that the principal has or had."""
        rows = await self._run(principal, partial(_named, statement=_NAMED, principal=principal, tokens=tokens))
        known = {it.token: it for it in await run_sized(len(rows) > _FEW, self._known, principal, rows)}
        return [known[it] for it in tokens if it in known]

    async def all(self, principal: PrincipalId) -> Sequence[KnownToken]:
        """All that stand for something."""
        found = (await self.changes(principal, 0)).tokens
        return sorted(
            (it for it in found if it.original is not None), key=lambda it: (it.kind, len(it.token), it.token)
        )

    async def forget(self, principal: PrincipalId, tokens: Collection[str]) -> int:
        """Make these tokens stand for nothing, in every product; returns how many did until now."""

        def forget(connection: Connection) -> int:
            return _forget(connection, principal, _named(connection, _VALID_OF_NAMES, principal, tokens))

        return await self._thread.run(forget, is_durable=True)

    async def _run(self, principal: PrincipalId, step: Callable[[Connection], T]) -> T:
        """Do a step that does not find what has expired."""
        now, seconds = self._clock(), self._limits().expire_seconds
        if seconds is None or now - self._expired_at.get(principal, 0.0) < _EXPIRY_SECONDS:
            return await self._thread.run(step)
        expired = {"of_principal": principal, "before": now - seconds}

        def expire(connection: Connection) -> T:
            _forget(connection, principal, connection.execute(_EXPIRED, expired).all())
            return step(connection)

        result = await self._thread.run(expire)
        self._expired_at[principal] = now
        return result

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
    all_, own = connection.execute(_COUNTS, {"of_principal": principal, "of_server": server}).one()
    share = (most - (all_ - own) + 1) // 2
    if own + needed <= share:
        return None
    return TokensFull(
        f"{needed:,} of its values need new privacy tokens, and {server} may get {max(0, share - own):,} more: it has "
        f"{own:,}, other servers have {all_ - own:,}, and a server gets at most half of what the others leave of "
        f"{most:,} (privacy.max_tokens in upstream.yaml). Ask for less of it; the user can raise privacy.max_tokens, "
        "or make room by `codemode-server privacy forget --server NAME` (`privacy list` says what each server has)"
    )


def _found(connection: Connection, principal: PrincipalId, lookups: Sequence[bytes]) -> dict[bytes, Row[Any]]:
    found: dict[bytes, Row[Any]] = {}
    for batch in _batches(lookups):
        rows = connection.execute(_BY_LOOKUP, {"of_principal": principal, "lookups": batch})
        found |= {row.lookup: row for row in rows}
    return found


def _named(
    connection: Connection, statement: Select[Any], principal: PrincipalId, tokens: Iterable[str]
) -> list[Row[Any]]:
    numbers: dict[str, list[int]] = {}
    for found in filter(None, map(TOKEN.fullmatch, tokens)):
        numbers.setdefault(found[1], []).append(int(found[2]))
    rows: list[Row[Any]] = []
    for label, its in numbers.items():
        which = {"of_principal": principal, "of_label": label}
        for batch in _batches(its):
            rows += connection.execute(statement, {**which, "numbers": batch})
    return rows


def _forget(connection: Connection, principal: PrincipalId, rows: Sequence[Any]) -> int:
    if rows:
        own = {"of_principal": principal}
        last = connection.execute(_LAST_CHANGE, own).scalar_one()
        changes = enumerate((_name(principal, it) for it in rows), start=last + 1)
        connection.execute(_FORGET, [it | {"new_change": change} for change, it in changes])
    return len(rows)


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _name(principal: PrincipalId, row: Row[Any]) -> dict[str, Any]:
    """The values of `_IS_ONE`."""
    return {"of_principal": principal, "of_label": row.label, "of_number": row.number}


def _token(label: str, number: int) -> str:
    return f"<{label}_{number}>"


def _place(principal: PrincipalId, token: str) -> str:
    return f"privacy/{principal}/{token}"


def delete_forgotten_tokens(_before: float, connection: Connection) -> int:
    """Delete rows of tokens that were forgotten or have expired, once other processes have noticed it; returns the
    number of deleted rows. A transaction of the caller deletes a few."""
    values = {"kept": KEPT_CHANGES, "most": _DELETED_AT_ONCE}
    if rows := [row._asdict() for row in connection.execute(_TO_DELETE, values)]:
        connection.execute(_DELETE, rows)
    return len(rows)
