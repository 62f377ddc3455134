"""`codemode-server audit verify` and `show`: whether somebody changed the audit, from which row on, and what is in it.

The database is changed as anybody can who may write the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_audit import SqliteAudit
from tests import database
from tests.behaviour.product import configuration
from tests.conformance.test_audit import SOMEBODY, X1, X2, ended, started
from tests.tables import rows, tables

TABLES = tables(__file__)


async def verify(folder: Path, *arguments: str) -> int:
    path = str(folder / "upstream.yaml")
    return await anyio.to_thread.run_sync(run, ["audit", "verify", "--config", path, *arguments])


async def show(folder: Path, *arguments: str) -> int:
    path = str(folder / "upstream.yaml")
    return await anyio.to_thread.run_sync(run, ["audit", "show", *arguments, "--config", path])


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
    for statement in statements:
        database.change(folder / "state", statement)


async def test_a_sound_audit_is_answered_with_its_rows_and_newest_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = await write_rows(tmp_path)
    assert await verify(tmp_path) == 0
    said = capsys.readouterr().out
    assert said.startswith("the audit is sound: 5 rows")
    assert f"newest digest: {digest}\n" in said


@pytest.mark.parametrize(("statements", "row"), rows(TABLES["changes"]))
async def test_a_changed_audit_is_answered_with_the_first_row_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statements: list[str], row: int
) -> None:
    await write_rows(tmp_path)
    change(tmp_path, *statements)
    assert await verify(tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"the audit is broken at row {row}: ")


async def test_newest_rows_that_were_removed_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write_rows(tmp_path)
    assert await verify(tmp_path) == 0, "control"
    capsys.readouterr()
    change(tmp_path, "DELETE FROM audit WHERE number >= 5")
    assert await verify(tmp_path) == 1
    said = capsys.readouterr().out
    assert said.startswith("the audit is broken at its end: the newest rows (1), from 5 on, were removed")


async def test_a_noted_digest_shows_a_removal_that_changed_the_head_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = await write_rows(tmp_path)
    assert await verify(tmp_path, "--noted", digest) == 0, "control"
    change(
        tmp_path,
        "DELETE FROM audit WHERE number >= 4",
        "UPDATE audit_head SET number = 3, digest = (SELECT digest FROM audit WHERE number = 3)",
    )
    assert await verify(tmp_path) == 0, "nothing in the file can show this"
    capsys.readouterr()
    assert await verify(tmp_path, "--noted", digest) == 1
    assert capsys.readouterr().out.startswith("the noted digest is not in the audit")


async def test_rows_are_printed_newest_last_within_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_rows(tmp_path)
    thread = DatabaseThread(tmp_path / "state")
    audit = SqliteAudit(thread)
    audit.append(replace(ended(7), tool="list\x1b[2J", error="e" * 500))
    audit.append(replace(started(X1, SOMEBODY), execution_id=X2))
    await audit.extent()
    thread.close()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert await show(tmp_path, "--limit", "2") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("     5 ")
    assert first.endswith(" x1 started in no sandbox")
    assert r"x1 call 7 github.list\x1b[2J: failed after 3 ms:" in last
    assert len(last) == 80
