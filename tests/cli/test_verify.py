"""`codemode-server executions verify`: the exit code and the answer say whether somebody changed the audit, and from
which row on. The database is changed as anybody can who may write the file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_audit import SqliteAudit
from tests.behaviour.product import configuration
from tests.conformance.test_audit import X1, started


async def verify(folder: Path, *arguments: str) -> int:
    path = str(folder / "upstream.yaml")
    return await anyio.to_thread.run_sync(run, ["executions", "verify", "--config", path, *arguments])


async def write_rows(folder: Path) -> str:
    """Five rows; gives the digest of the last one."""
    configuration(folder, {})
    (folder / "state").mkdir(mode=0o700)
    thread = DatabaseThread(folder / "state")
    audit = SqliteAudit(thread)
    for _ in range(5):
        audit.append(started(X1))
    _, digest = await audit.extent()
    thread.close()
    return digest


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "state" / FILE_NAME)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_sound_audit_is_answered_with_its_rows_and_newest_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = await write_rows(tmp_path)
    assert await verify(tmp_path) == 0
    said = capsys.readouterr().out
    assert said.startswith("the audit is sound: 5 rows")
    assert f"newest digest: {digest}\n" in said
    assert await verify(tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "is_sound": True,
        "rows": 5,
        "newest_digest": digest,
        "first_broken_row": None,
    }


@pytest.mark.parametrize(
    ("statements", "row"),
    [
        (["UPDATE audit SET principal = 'somebody' WHERE number = 3"], 3),
        (["UPDATE audit SET error = x'00ff' WHERE number = 3"], 3),
        (["UPDATE audit SET kind = 'nothing' WHERE number = 2"], 2),
        (["DELETE FROM audit WHERE number = 3"], 4),
        (["DELETE FROM audit WHERE number = 1"], 2),
        (["DELETE FROM audit_anchor", "DELETE FROM audit WHERE number < 4"], 4),
    ],
)
async def test_a_changed_audit_is_answered_with_the_first_row_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statements: list[str], row: int
) -> None:
    await write_rows(tmp_path)
    change(tmp_path, *statements)
    assert await verify(tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"the audit is broken at row {row}: ")
    assert await verify(tmp_path, "--json") == 1
    assert json.loads(capsys.readouterr().out)["first_broken_row"] == row


async def test_nothing_is_written_where_nothing_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration(tmp_path, {})
    assert await verify(tmp_path) == 0
    assert capsys.readouterr().out == "the audit has no rows\n"
    assert not (tmp_path / "state").exists()
