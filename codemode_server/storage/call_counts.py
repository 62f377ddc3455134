"""Counts the calls that rate limits let through, for all processes on the database and over their restarts.

A row for each call, numbered within its limit. Of two transactions that count at the same moment, the database undoes
the one that gives a number which the other has given, and it is done again. So the newest row of a limit always stays.
Times are those of the clocks of the processes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Double, Integer, Text, bindparam, delete, func, insert, select

from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.calls import Deny
from codemode_server.storage.tables import counted_calls

_LIMIT = bindparam("of_limit", type_=Text)
_NOW = bindparam("now", type_=Double)
_IS_OF_LIMIT = counted_calls.c.limit_key == _LIMIT
_LATER = counted_calls.alias()
_NEWEST = select(func.max(_LATER.c.number)).where(_LATER.c.limit_key == _LIMIT).scalar_subquery()
_REACHED = select(counted_calls.c.counts_until).where(
    _IS_OF_LIMIT,
    counted_calls.c.number == _NEWEST + 1 - bindparam("most", type_=Integer),
    counted_calls.c.counts_until > _NOW,
)
"""When the next call goes through, if none does before."""
_COUNT = (
    insert(counted_calls)
    .from_select(
        [*counted_calls.c],
        select(_LIMIT, func.coalesce(_NEWEST, 0) + 1, _NOW + bindparam("seconds", type_=Double)).where(
            ~_REACHED.exists()
        ),
    )
    .execution_options(preserve_rowcount=True)
)
_UNCOUNT = delete(counted_calls).where(_IS_OF_LIMIT, counted_calls.c.number == _NEWEST)


def count(connection: Connection, limits: Sequence[CallLimit], now: float) -> Deny | None:
    """Count a call in each of these limits, or in none if one of them denies it."""
    for index, it in enumerate(limits):
        if it.calls < 1 or not connection.execute(_COUNT, _values(it, now)).rowcount:
            for counted in limits[:index]:
                connection.execute(_UNCOUNT, _values(counted, now))
            return reached(connection, [it], now)
    return None


def reached(connection: Connection, limits: Sequence[CallLimit], now: float) -> Deny | None:
    """Why a call would be denied; None if it would be let through."""
    for it in limits:
        until = connection.execute(_REACHED, _values(it, now)).scalar() if it.calls > 0 else math.inf
        if until is not None:
            return it.denied(until - now)
    return None


def no_longer_needed(now: float) -> ColumnElement[bool]:
    """Which rows can be deleted."""
    is_newest = counted_calls.c.number == (
        select(func.max(_LATER.c.number)).where(_LATER.c.limit_key == counted_calls.c.limit_key).scalar_subquery()
    )
    return (counted_calls.c.counts_until <= now) & ~is_newest


def _values(limit: CallLimit, now: float) -> dict[str, object]:
    # A rule may be longer than what a database takes as a key.
    key = hashlib.sha256(f"{limit.principal}\0{limit.name}".encode("utf-8", "surrogatepass")).hexdigest()
    return {"of_limit": key, "most": limit.calls, "now": now, "seconds": limit.seconds}
