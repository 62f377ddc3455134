"""The time of the pages of `codemode-server ui` on a record of 100,000 executions, over HTTP as a browser asks."""

from __future__ import annotations

import re
import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from codemode_server.cli.ui import opened
from codemode_server.config import load
from codemode_server.storage.database import Database
from tests.behaviour.product import configuration

EXECUTIONS = 100_000
_EVERY_SECONDS = 60.0
_REQUESTS = 30
_AUDIT = "kind, principal, session_id, execution_id, at, seq, server, tool, decision, reason, status"
_SAVINGS = (
    "principal, at, tool, execution_id, sent, returned, own_definitions, all_definitions, turns, calls, arguments,"
    " results"
)
PAGES = {
    "the newest": "executions",
    "a search for a status": "executions?status=failed",
    "a search for a text that nothing holds": "executions?text=nowhere",
    "savings of 90 days": "savings?days=90",
}


@dataclass(frozen=True)
class Times:
    """Milliseconds of one page."""

    median: float
    slowest: float


async def measure() -> dict[str, Times]:
    """By the names of `PAGES`."""
    with TemporaryDirectory() as folder:
        path = configuration(Path(folder), {})
        with closing(Database(Path(folder) / "state")) as database, database.use() as connection:
            _fill(connection)
        async with opened(load(path)) as address, httpx2.AsyncClient(timeout=60) as browser:
            entered = await browser.get(address)
            base = re.search(r'href="(/s/[^"/]+)/executions"', entered.text)
            assert base is not None
            origin = address.rpartition("/open/")[0]
            return {name: await _times(browser, f"{origin}{base[1]}/{page}") for name, page in PAGES.items()}


async def _times(browser: httpx2.AsyncClient, address: str) -> Times:
    taken = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        answer = await browser.get(address)
        taken.append((time.perf_counter() - began) * 1e3)
        assert answer.status_code == 200, answer.text
    return Times(statistics.median(taken[1:]), max(taken[1:]))


def _fill(connection: sqlite3.Connection) -> None:
    """The newest half of the executions is in the journal too."""
    first = time.time() - EXECUTIONS * _EVERY_SECONDS
    names = [(f"x{number:012x}", first + number * _EVERY_SECONDS) for number in range(EXECUTIONS)]
    connection.execute("BEGIN")
    connection.executemany(
        f"INSERT INTO audit ({_AUDIT}, digest, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 300)",
        _audit_rows(names),
    )
    connection.executemany(
        "INSERT INTO journal_executions (execution_id, principal, session_id, is_ephemeral, status, started_at,"
        " ended_at, calls, milliseconds) VALUES (?, 'default', 's', 0, ?, ?, ?, 1, 500)",
        (
            (name, "failed" if number % 10 == 0 else "succeeded", at, at + 1)
            for number, (name, at) in enumerate(names)
            if number >= EXECUTIONS // 2
        ),
    )
    connection.executemany(
        f"INSERT INTO savings ({_SAVINGS}) VALUES ('default', ?, 'execute_code', ?, 300, 200, 1200, 40000, 2, 3, 60,"
        " 4000)",
        ((at, name) for name, at in names),
    )
    connection.execute(
        "INSERT INTO savings_by_server SELECT number, 'server' || (number % 20), calls, arguments, results FROM savings"
    )
    connection.execute("COMMIT")


def _audit_rows(names: list[tuple[str, float]]) -> Iterator[tuple[Any, ...]]:
    for number, (name, at) in enumerate(names):
        status = "failed" if number % 10 == 0 else "succeeded"
        for kind, *more in (
            ("execution_started", None, None, None, None, None, None),
            ("call_decided", 1, f"server{number % 20}", "list_items", "allow", "permissions.default is allow", None),
            ("execution_ended", None, None, None, None, None, status),
        ):
            yield (kind, "default", "s", name, at, *more)
