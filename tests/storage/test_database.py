"""The record on disk: one SQLite file that several products share, that only its user reads, and that says how each
execution and call ended; where it can't be written, the message names the file and the remedy.

Real products and real processes; what is read here is read as a person would, with `sqlite3` on the file.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.schema import VERSION
from tests.behaviour.product import configuration, in_memory, office, over_stdio
from tests.storage.at_once import STARTS, run_at_once


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        return connection.execute(query).fetchall()


OPENS = f"""
import sys
from pathlib import Path
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from tests.storage.journal_rows import begin_execution
{STARTS}
database = Database(Path(sys.argv[1]))
for number in range(50):
    begin_execution(database, f"{{sys.argv[2]}}-{{number}}")
database.close()
"""


def test_processes_that_open_it_at_once_create_the_schema_once_and_all_write(tmp_path: Path) -> None:
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        run_at_once(OPENS, folder, *"abc")
        assert rows(folder, "PRAGMA user_version") == [(VERSION,)]
        assert rows(folder, "SELECT count(*) FROM journal_executions") == [(150,)]


async def test_all_that_a_product_keeps_is_readable_by_its_user_only(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    before = os.umask(0)
    try:
        async with over_stdio(path) as host:
            await host.run("open('/workspace/notes.txt', 'w').write('x')")
            kept = {
                str(place.relative_to(tmp_path)): stat.S_IMODE(place.stat().st_mode)
                for place in (tmp_path / "state", *(tmp_path / "state").rglob("*"))
            }
    finally:
        os.umask(before)
    assert {"state/codemode.db", "state/workspaces/default/notes.txt"} <= set(kept)
    # Below a folder that others can't enter, a file's own mode adds nothing.
    shared = {name for name, mode in kept.items() if mode & 0o077}
    closed = {name for name in kept if name not in shared}
    assert {name for name in shared if not any(name.startswith(f"{folder}/") for folder in closed - {"state"})} == set()
    assert kept["state"] == 0o700


async def test_a_program_leaves_its_execution_and_its_calls_settled_in_the_record(tmp_path: Path) -> None:
    path = configuration(
        tmp_path,
        office(tmp_path, "github"),
        permissions={"rules": [{"deny": "github/create_issue", "reason": "By hand."}]},
    )
    async with in_memory(path) as host:
        answer = await host.run(
            """\
from codemode import ToolError
from servers.github import list_issues, create_issue, boom
for call in (lambda: create_issue(owner="a", repo="b", title="c"), boom, lambda: list_issues(repo=7)):
    try:
        call()
    except ToolError as error:
        print(error)
len(list_issues(repo="a/b"))
"""
        )
        failed = await host.run("1 / 0")
    assert answer.value == 5
    executions = rows(
        tmp_path / "state",
        "SELECT execution_id, principal, level, status, calls, ended_at >= started_at, milliseconds > 0 "
        "FROM journal_executions ORDER BY started_at",
    )
    assert executions == [
        (answer.content["execution_id"], "default", "wasm", "succeeded", 4, 1, 1),
        (failed.content["execution_id"], "default", "wasm", "failed", 0, 1, 1),
    ]
    errors = rows(tmp_path / "state", "SELECT error FROM audit WHERE kind = 'execution_ended' ORDER BY number")
    assert errors == [(None,), ("ZeroDivisionError (line 1)",)]
    assert rows(tmp_path / "state", "SELECT count(DISTINCT session_id) FROM journal_executions") == [(1,)]
    calls = rows(
        tmp_path / "state",
        "SELECT seq, server, tool, decision, reason, status, milliseconds > 0, result_bytes > 0 "
        "FROM journal_calls ORDER BY seq",
    )
    rule, default = (
        "rule 1 of permissions.rules (deny: github/create_issue): By hand.",
        "permissions.default is 'allow'",
    )
    assert calls == [
        (1, "github", "create_issue", "deny", rule, "refused", 1, 0),
        (2, "github", "boom", "allow", default, "failed", 1, 0),
        (3, "github", "list_issues", "allow", default, "invalid", 1, 0),
        (4, "github", "list_issues", "allow", default, "succeeded", 1, 1),
    ]
    payloads = rows(tmp_path / "state", "SELECT payload FROM audit WHERE seq = 4 ORDER BY number")
    assert [json.loads(payload) for (payload,) in payloads] == [
        {"repo": "str of 3"},
        [
            "5 x",
            {
                "number": "int",
                "title": "str of 14",
                "state": "str of 4",
                "labels": ["2 x", "str of 3"],
                "created_at": "str of 20",
            },
        ],
    ]
