"""`codemode-server audit stream`: the audit of all principals for other software, each row once, also over restarts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import select

from codemode_server.cli.audit import AuditFollower
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.storage.tables import executions
from tests import fork_server
from tests.behaviour.product import configuration
from tests.conformance.test_audit import SOMEBODY, X1, X2, Record, reviewed
from tests.waiting import until


@pytest.fixture
async def record(tmp_path: Path) -> AsyncIterator[Record]:
    configuration(tmp_path, {})
    (tmp_path / "state").mkdir(mode=0o700)
    record = Record(tmp_path / "state")
    yield record
    record.thread.close()


@contextmanager
def streaming(folder: Path, output: Path) -> Iterator[subprocess.Popen[str]]:
    """Until the block is left, by SIGTERM."""
    arguments = ("audit", "stream", "--position", str(folder / "position"), "--config", str(folder / "upstream.yaml"))
    command = fork_server.command("-m", "codemode_server", *arguments)
    with output.open("a") as lines, subprocess.Popen(command, stdout=lines, stderr=subprocess.PIPE, text=True) as it:
        try:
            yield it
        finally:
            it.send_signal(signal.SIGTERM)
            it.wait()


async def begun(folder: Path, record: Record) -> None:
    """The stream runs, and what is recorded from now on is recorded now."""
    await until((folder / "position").exists, 60)
    record.now = time.time()


def lines(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.read_text().splitlines() if line.endswith("}")]


def shown(output: Path) -> list[tuple[str, str, str | None]]:
    return [(it["kind"], it["principal"], it["execution_id"]) for it in lines(output)]


async def test_each_row_of_all_principals_is_a_line_once_over_a_restart(tmp_path: Path, record: Record) -> None:
    output = tmp_path / "audit.jsonl"
    with streaming(tmp_path, output):
        await begun(tmp_path, record)
        await record.begin()
        await record.call(1)
        await until(lambda: len(shown(output)) == 3, 60)
    await record.begin(X2, SOMEBODY)  # nothing streams
    await record.audit.record(reviewed(SOMEBODY))
    await record.end()
    with streaming(tmp_path, output):
        await until(lambda: len(shown(output)) == 6, 60)
        await record.end(X2)
        await until(lambda: len(shown(output)) == 7, 60)
    assert sorted(shown(output), key=str) == sorted(
        [
            *((kind, "default", X1) for kind in ("execution_started", "call_decided", "call_ended", "execution_ended")),
            *((kind, "somebody", X2) for kind in ("execution_started", "execution_ended")),
            ("tool_accepted", "somebody", None),
        ],
        key=str,
    )
    (refused,) = [it for it in lines(output) if it["kind"] == "call_ended"]
    assert (refused["server"], refused["tool"], refused["decision"]) == ("github", "list-issues", "deny")
    (accepted,) = [it for it in lines(output) if it["kind"] == "tool_accepted"]
    assert await record.audit.holds(accepted["digest"]), "which `audit verify --noted` takes"


async def test_a_replica_whose_clock_is_ahead_hides_no_rows_of_the_others(record: Record) -> None:
    follower = AuditFollower(partial(record.audit.rows, None), 60.0, time.time(), slice_seconds=600.0)
    for execution_id, ahead in ((X2, 300.0), (X1, 0.0)):
        record.now = time.time() + ahead
        await record.begin(execution_id)
        assert [it.event.execution_id for it in await follower.new()] == [execution_id]
    assert await follower.new() == []


async def test_an_end_that_is_written_an_hour_late_is_a_row_then(record: Record) -> None:
    follower = AuditFollower(partial(record.audit.rows, None), 60.0, time.time() - 3_600.0)
    record.now = time.time() - 3_600.0
    await record.begin()
    record.journal.note_unwritten(X1, JournalUnavailable("no room"))
    with pytest.raises(JournalUnavailable, match="no room"):
        await record.end()
    record.now = time.time()
    await record.audit.record(replace(reviewed(), at=record.now))
    assert [it.event.kind.value for it in await follower.new()] == ["execution_started", "tool_accepted"], "control"
    await record.begin(X2)
    shown = [(it.event.kind.value, it.event.execution_id) for it in await follower.new()]
    assert sorted(shown) == [("execution_ended", X1), ("execution_started", X2)]
    assert await record.audit.verified() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
async def test_where_nothing_can_be_written_it_ends_and_the_next_run_has_the_rows(
    tmp_path: Path, record: Record
) -> None:
    output = tmp_path / "audit.jsonl"
    with streaming(tmp_path, output):
        await begun(tmp_path, record)
    with streaming(tmp_path, Path("/dev/full")) as process:
        await record.begin()
        await record.end()
        assert await anyio.to_thread.run_sync(process.wait, 60) == 2
        assert process.stderr is not None
        assert "the audit can't be streamed any further: No space left on device" in process.stderr.read()
    (status,) = await record.thread.rows(select(executions.c.status))
    assert status == (ExecutionStatus.FAILED,), "nothing else is held up"
    with streaming(tmp_path, output):
        await until(lambda: [it[0] for it in shown(output)] == ["execution_started", "execution_ended"], 60)


async def test_a_position_that_is_none_is_refused(tmp_path: Path, record: Record) -> None:
    (tmp_path / "position").write_text("[]")
    with streaming(tmp_path, tmp_path / "audit.jsonl") as process:
        assert await anyio.to_thread.run_sync(process.wait, 60) == 2
        assert process.stderr is not None
        assert "position can't be read; without it the stream begins with the last minute" in process.stderr.read()
