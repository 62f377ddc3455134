"""Lists, searches, the upkeep and `audit verify` with many calls in the database, on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
from sqlalchemy import case, insert, literal, select, union_all

from benchmarks.report import Row, milliseconds
from codemode_server.domain.history import HistoryQuery
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.audit import Audit, content_digests, digest_of, new_chain
from codemode_server.storage.database import Database, DatabasePlace, PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.history import History
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.ownership import ownership
from codemode_server.storage.tables import cache, calls, events, executions
from tests.storage.postgres import Cluster

CALLS_EACH = 10
_AT_ONCE = 1_000
_DAYS, _DAYS_WITH_VALUES = 90.0, 7.0
"""As `state.record_days` and `state.journal_hours` are by default. An hour more than that is in the database, which
the upkeep removes, as it does each hour."""
_BYTES = 1 << 40
"""More than there is, so that the upkeep computes sizes and deletes by age."""
_HOUR, _DAY = 3_600.0, 86_400.0
_OWNER = Principal(PrincipalId("default"))
_RUNS = 15
_FEWER = 100
_NEWEST, _NEWEST_OF_AUDIT = "the newest 50 executions", "the newest 40 rows of the audit"
_LIMIT_MS = {_NEWEST: 50, _NEWEST_OF_AUDIT: 50}
"""A second for all others."""
_EVENT = (
    *("kind", "principal", "session_id", "execution_id", "at", "seq", "server", "tool", "decision", "reason"),
    *("status", "payload"),
)
"""The columns of an event in the order in which they are digested."""


def fill(database: Database, count: int, newest: float) -> None:
    """Record so many calls, evenly over the time for which they stay, with the digests of the audit."""
    every = [f"x{number:08}" for number in range(count // CALLS_EACH)]
    step = (_DAYS * _DAY + _HOUR) / len(every)
    for start in range(0, len(every), _AT_ONCE):
        names = every[start : start + _AT_ONCE]
        rows = [_execution(name, newest - (len(every) - start - at) * step, newest) for at, name in enumerate(names)]
        database.transact(lambda connection, rows=rows: connection.execute(insert(executions), rows))  # type: ignore[misc]
    value = case((executions.c.value_bytes.is_not(None), literal(os.urandom(200))))
    numbers = union_all(*(select(literal(seq).label("seq")) for seq in range(1, CALLS_EACH + 1))).subquery()
    row = {
        "execution_id": executions.c.execution_id,
        "seq": numbers.c.seq,
        "server": case((numbers.c.seq % 3 == 0, "github"), else_="slack"),
        "tool": case((numbers.c.seq % 2 == 0, "list_issues"), else_="get_channel_history"),
        "occurrence": literal(1),
        "decision": literal("allow"),
        "reason": literal("permissions.default"),
        "status": literal("succeeded"),
        "started_at": executions.c.started_at + numbers.c.seq * 0.01,
        "ended_at": executions.c.started_at + numbers.c.seq * 0.01 + 0.005,
        "milliseconds": literal(5.0),
        "result_bytes": literal(200),
        "recorded_arguments": literal('{"owner": "str(4)", "repo": "str(3)", "state": "str(4)"}'),
        "recorded_result": literal('[{"number": "int", "title": "str(31)", "labels": "list(2)"}, "... 29 more"]'),
        "arguments": value,
        "detail": value,
        "result": value,
    }
    every_row = select(*(it.label(name) for name, it in row.items())).join_from(executions, numbers, literal(1) == 1)
    database.transact(lambda connection: connection.execute(insert(calls).from_select([*row], every_row)))


def _execution(name: str, at: float, now: float) -> dict[str, object]:
    return {
        "execution_id": name,
        "principal": _OWNER.principal_id,
        "session_id": "s",
        "is_ephemeral": False,
        "is_dry_run": False,
        "level": "wasm",
        "status": "succeeded",
        "started_at": at,
        "ended_at": at + 1,
        "milliseconds": 1_000.0,
        "calls": CALLS_EACH,
        "recorded_description": "The open issues, by label",
        "record_bytes": 3_000,
        "value_bytes": 6_000 if at > now - _DAYS_WITH_VALUES * _DAY - _HOUR else None,
    }


def sign(databases: Sequence[Database]) -> None:
    """Add the event of each execution's end. The same executions are in all databases."""
    chain, digest, last = new_chain(), "", ""
    some = select(executions).order_by(executions.c.execution_id).limit(_AT_ONCE)
    while True:
        with databases[0].begin(reads=True) as connection:
            found = connection.execute(some.where(executions.c.execution_id > last)).all()
            if not found:
                return
            after, last = last, found[-1].execution_id
            contents = content_digests(connection, after, last)
        rows = []
        for it in found:
            about = it.principal, it.session_id, it.execution_id, it.ended_at, *(None,) * 5, it.status
            values = ("execution_ended", *about, contents[it.execution_id])
            previous, digest = digest, digest_of(digest, values)
            chained = {"chain": chain, "previous": previous, "digest": digest, "bytes": 314}
            rows.append(dict(zip(_EVENT, values, strict=True)) | chained)
        for database in databases:
            database.transact(lambda connection, rows=rows: connection.execute(insert(events), rows))  # type: ignore[misc]


def rows(folder: Path, server: Cluster | None, count: int) -> list[Row]:
    """On SQLite, and on PostgreSQL if there is a server."""
    made = []
    now = time.time()
    few, many = folder / "few", folder / "many"
    places: dict[str, tuple[DatabasePlace, DatabasePlace]] = {"SQLite": (few, many)}
    if server is not None:
        places["PostgreSQL"] = server.database(), server.database()
    for number, part in enumerate((count // _FEWER, count)):
        with ExitStack() as stack:
            databases = [stack.enter_context(closing(Database(pair[number]))) for pair in places.values()]
            for database in databases:
                fill(database, part, now)
            sign(databases)
    for name, pair in places.items():
        for place in pair:
            if isinstance(place, PostgresAddress):
                with psycopg.connect(place.url, autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")  # as the server does by itself, a minute later
        made += anyio.run(_rows, f"{name} with {count:,} calls", *pair, many)
    return made


async def _rows(name: str, few: DatabasePlace, many: DatabasePlace, folder: Path) -> list[Row]:
    made = []
    with closing(Database(few)) as small, closing(Database(many)) as database, closing(DatabaseThread(many)) as thread:
        audit = Audit(thread, reader=database)
        cipher = JournalCipher(folder)
        pairs = zip(_reads(small, thread, cipher).items(), _reads(database, thread, cipher).values(), strict=True)
        for (what, less), more in pairs:
            times = [(await milliseconds(less), await milliseconds(more)) for _ in range(_RUNS)]
            usual, took = (statistics.median(it) for it in zip(*times, strict=True))
            limit_ms = _LIMIT_MS.get(what, 1_000)
            shown = f"{took:.1f} ms, {took / usual:.1f} x those with a hundredth ({usual:.1f} ms)"
            made.append(Row(f"{name}: {what}", shown, f"under {limit_ms:,} ms", took < limit_ms))
        owner = ownership(database, folder, is_shared=isinstance(many, PostgresAddress))
        upkeep = Upkeep(many, owner, Retention(_DAYS, _BYTES), Retention(_DAYS_WITH_VALUES, _BYTES))
        seconds, waits = await _beside(upkeep.pass_once, thread)
        owner.close()
        what = f"{name}: the upkeep of an hour; a write meanwhile"
        is_met = seconds < 10 and max(waits) < 100
        made.append(Row(what, f"{seconds:.1f} s; at most {max(waits):.0f} ms", "under 10 s; 100 ms", is_met))
        began = time.perf_counter()
        broken = await audit.verified()
        seconds = time.perf_counter() - began
        assert broken == ""
        made.append(Row(f"{name}: audit verify", f"{seconds:.1f} s", "under 60 s", seconds < 60))
    return made


def _reads(
    database: Database, thread: DatabaseThread, cipher: JournalCipher
) -> dict[str, Callable[[], Awaitable[object]]]:
    history, audit = History(database, cipher), Audit(thread, reader=database)
    return {
        _NEWEST: lambda: history.search(_OWNER, HistoryQuery()),
        "a search for what is nowhere": lambda: history.search(_OWNER, HistoryQuery("nowhere")),
        "executions of a server that none called": lambda: history.search(_OWNER, HistoryQuery(server="none")),
        "how often which rule decided": lambda: history.decisions(_OWNER),
        _NEWEST_OF_AUDIT: lambda: audit.rows(_OWNER, limit=40),
    }


async def _beside(work: Callable[[], object], thread: DatabaseThread) -> tuple[float, list[float]]:
    """Seconds that the work takes in another thread, and milliseconds of each write meanwhile."""
    waits: list[float] = []
    row = {"kind": "bench", "value": b"x", "used_at": time.time()}
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            while True:
                new = row | {"key": str(len(waits))}
                waits.append(await milliseconds(lambda: thread.run(lambda it: it.execute(insert(cache), new))))  # noqa: B023
                await anyio.sleep(0.005)

        tasks.start_soon(write)
        took = await milliseconds(lambda: anyio.to_thread.run_sync(work))
        tasks.cancel_scope.cancel()
    return took / 1e3, waits
