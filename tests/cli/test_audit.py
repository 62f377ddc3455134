"""`codemode-server audit verify` and `show`: whether somebody changed the audit, from which row on, and what is in it.

The database is changed as anybody can who may write the file.
"""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli import run
from tests import database
from tests.behaviour.product import configuration
from tests.conformance.test_audit import LOCAL, SOMEBODY, X2, Record, reviewed
from tests.tables import rows, tables

TABLES = tables(__file__)


async def verify(folder: Path, *arguments: str) -> int:
    path = str(folder / "upstream.yaml")
    return await anyio.to_thread.run_sync(run, ["audit", "verify", "--config", path, *arguments])


async def show(folder: Path, *arguments: str) -> int:
    path = str(folder / "upstream.yaml")
    return await anyio.to_thread.run_sync(run, ["audit", "show", *arguments, "--config", path])


async def write_rows(folder: Path) -> str:
    """An execution with a call, and then five events; gives the digest of the last one."""
    configuration(folder, {})
    (folder / "state").mkdir(mode=0o700)
    record = Record(folder / "state")
    for _ in range(5):
        record.audit.append(reviewed())
    await record.begin()
    await record.call(1)
    await record.end()
    _, digest = await record.audit.extent()
    record.thread.close()
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
    assert said.startswith("the audit is sound: 6 events")
    assert f"newest digest: {digest}\n" in said


@pytest.mark.parametrize(("statements", "row"), rows(TABLES["changes"]))
async def test_a_changed_audit_is_answered_with_the_first_row_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statements: list[str], row: str
) -> None:
    await write_rows(tmp_path)
    change(tmp_path, *statements)
    assert await verify(tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"the audit is broken at {row}: ")


async def test_a_noted_digest_shows_that_the_newest_rows_were_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = await write_rows(tmp_path)
    assert await verify(tmp_path, "--noted", digest) == 0, "control"
    change(tmp_path, "DELETE FROM events WHERE number >= 5", "DELETE FROM executions")
    assert await verify(tmp_path) == 0, "nothing in the file can show this"
    capsys.readouterr()
    assert await verify(tmp_path, "--noted", digest) == 1
    assert capsys.readouterr().out.startswith("the noted digest is not in the audit")


async def test_rows_are_printed_newest_last_within_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_rows(tmp_path)
    record = Record(tmp_path / "state")
    record.audit.append(AuditEvent.by_person(AuditEventKind.TOOL_ACCEPTED, LOCAL, server="github", tool="list\x1b[2J"))
    await record.begin(X2, SOMEBODY)
    await record.audit.extent()
    record.thread.close()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert await show(tmp_path, "--limit", "2") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("     6 ")
    assert " x1 failed after 5 ms: ValueError" in first
    assert last.endswith(r"github.list\x1b[2J: tool accepted")
    assert len(first) <= 80
