"""The state folder stays bounded: what is too old or too much is deleted and the disk gets the space back, executions
of killed products are settled, and what runs or is new stays.

Each store is filled past its bound; the control is what must still be there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy import insert

from codemode_server.domain.executions import INTERRUPTED
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.database import Database
from codemode_server.storage.ownership import LockedFolders
from codemode_server.storage.sqlite import FILE_NAME
from codemode_server.storage.tables import cache
from tests.database import change, rows
from tests.storage.journal_rows import add_call, begin_execution, end_execution

ROOT = Path(__file__).parents[2]
DAY = 86_400.0
UNBOUNDED = Retention(0, 0)


def names(folder: Path) -> list[str]:
    """The executions that run, or still have their values."""
    which = "ended_at IS NULL OR value_bytes IS NOT NULL"
    return [name for (name,) in rows(folder, f"SELECT execution_id FROM executions WHERE {which} ORDER BY 1")]


def record(folder: Path, *names: str, calls: int = 1, size: int = 10, settled: bool = True) -> None:
    """Executions, each with calls whose results have that many bytes."""
    with closing(Database(folder)) as database:
        for name in names:
            begin_execution(database, name)
            for seq in range(1, calls + 1):
                add_call(database, name, seq, result="x" * size)
            if settled:
                end_execution(database, name)


def keep(
    folder: Path,
    values: Retention = UNBOUNDED,
    *,
    records: Retention = UNBOUNDED,
    clock: Callable[[], float] = time.time,
) -> Upkeep:
    """One pass, by a product of its own."""
    upkeep = Upkeep(folder, LockedFolders(folder), records, values, clock=clock)
    upkeep.pass_once()
    return upkeep


RUNS = """
import sys
from pathlib import Path
from codemode_server.storage.database import Database
from codemode_server.storage.ownership import LockedFolders
from tests.storage.journal_rows import add_call, begin_execution
folder = Path(sys.argv[1])
database, owner = Database(folder), LockedFolders(folder)
begin_execution(database, "x1", owner=owner)
add_call(database, "x1")
print("ready", flush=True)
sys.stdin.readline()
"""
STATES = "SELECT e.status, c.status FROM executions AS e JOIN calls AS c USING (execution_id)"
WITH_VALUES = "SELECT execution_id FROM calls WHERE arguments IS NOT NULL"
ORPHANS = (
    "SELECT COUNT(*) FROM calls JOIN executions USING (execution_id)"
    " WHERE value_bytes IS NULL AND executions.ended_at IS NOT NULL AND arguments IS NOT NULL"
)
"""Values of calls whose execution has none any more."""


@contextmanager
def running_product(folder: Path) -> Iterator[None]:
    """A process that runs the execution `x1`; it is killed at the end."""
    product = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNS), str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert product.stdout
        assert product.stdout.readline() == b"ready\n"
        yield
    finally:
        os.kill(product.pid, signal.SIGKILL)
        product.communicate(timeout=60)


class TestAnExecution:
    def test_of_a_killed_product_is_interrupted_and_its_call_stays_unknown(self, tmp_path: Path) -> None:
        with running_product(tmp_path):
            keep(tmp_path)
            assert rows(tmp_path, STATES) == [("running", "started")], "control: its product lives"
        keep(tmp_path)
        assert rows(tmp_path, STATES) == [("interrupted", "started")]
        assert rows(tmp_path, "SELECT error, calls, ended_at IS NULL FROM executions") == [(INTERRUPTED, 1, 0)]
        events = rows(tmp_path, "SELECT kind, execution_id, principal, status FROM events")
        assert events == [("execution_ended", "x1", "default", "interrupted")]
        assert list((tmp_path / "running").iterdir()) == [], "nothing is left of it"
        keep(tmp_path)
        assert len(rows(tmp_path, "SELECT 1 FROM events")) == 1, "it ended once"

    def test_of_this_product_goes_on(self, tmp_path: Path) -> None:
        ownership = LockedFolders(tmp_path)
        with closing(Database(tmp_path)) as database:
            begin_execution(database, "x1", owner=ownership)
            Upkeep(tmp_path, ownership, UNBOUNDED, Retention(1, 1)).pass_once()
            end_execution(database, "x1")
        assert rows(tmp_path, "SELECT status FROM executions") == [("succeeded",)]
        ownership.close()
        assert list((tmp_path / "running").iterdir()) == []

    @pytest.mark.parametrize("days", [2, 4])
    def test_without_a_known_owner_is_interrupted_after_three_days(self, tmp_path: Path, days: int) -> None:
        record(tmp_path, "x1", settled=False)
        keep(tmp_path, clock=lambda: time.time() + days * DAY)
        assert rows(tmp_path, "SELECT status FROM executions") == [("interrupted" if days > 3 else "running",)]


class TestByAge:
    def test_values_are_removed_and_those_of_newer_and_running_executions_stay(self, tmp_path: Path) -> None:
        record(tmp_path, *(f"old{number:03}" for number in range(120)), calls=3)
        change(tmp_path, "UPDATE executions SET ended_at = ended_at - ?", 91 * DAY)
        record(tmp_path, "young")
        record(tmp_path, "runs", settled=False)
        keep(tmp_path, Retention(90, 0))
        assert names(tmp_path) == ["runs", "young"]
        assert rows(tmp_path, f"{WITH_VALUES} ORDER BY 1") == [("runs",), ("young",)]
        assert rows(tmp_path, "SELECT COUNT(*) FROM calls") == [(362,)], "the rows stay, for the audit"

    def test_rows_are_deleted_after_their_days_and_newer_and_running_ones_stay(self, tmp_path: Path) -> None:
        record(tmp_path, *(f"old{number:03}" for number in range(50)), calls=3)
        record(tmp_path, "killed", settled=False)
        keep(tmp_path, clock=lambda: time.time() + 4 * DAY)
        change(tmp_path, "UPDATE executions SET ended_at = ended_at - ?", 100 * DAY)
        change(tmp_path, "UPDATE events SET at = at - ?", 100 * DAY)
        record(tmp_path, "young")
        record(tmp_path, "runs", settled=False)
        assert rows(tmp_path, "SELECT COUNT(*) FROM events") == [(1,)], "control"
        keep(tmp_path, records=Retention(90, 0))
        assert rows(tmp_path, "SELECT execution_id FROM executions ORDER BY 1") == [("runs",), ("young",)]
        assert rows(tmp_path, "SELECT execution_id FROM calls ORDER BY 1") == [("runs",), ("young",)]
        assert rows(tmp_path, "SELECT COUNT(*) FROM events") == [(0,)]

    def test_calls_without_their_execution_are_deleted_and_others_stay(self, tmp_path: Path) -> None:
        """A product that was taken for dead may go on calling after its execution was deleted."""
        record(tmp_path, "whole", "gone", calls=50)
        change(tmp_path, "DELETE FROM executions WHERE execution_id = 'gone'")
        keep(tmp_path, records=Retention(90, 0))
        assert rows(tmp_path, "SELECT execution_id, COUNT(*) FROM calls GROUP BY 1") == [("whole", 50)]

    def test_what_was_not_used_for_half_a_year_is_deleted_from_the_cache(self, tmp_path: Path) -> None:
        Database(tmp_path).close()
        for number, days in enumerate([181] * 50 + [179]):
            used_at = time.time() - days * DAY
            kind = ("listings", "types", "uses", "vectors")[number % 4]
            change(tmp_path, "INSERT INTO cache VALUES (?, ?, x'00', ?)", kind, str(number), used_at)
        keep(tmp_path)
        assert rows(tmp_path, "SELECT key FROM cache") == [("50",)]


class TestBySize:
    def test_the_oldest_executions_are_deleted_and_the_disk_gets_their_space(self, tmp_path: Path) -> None:
        record(tmp_path, "a_runs", settled=False)
        for number in range(80):
            record(tmp_path, f"x{number:03}", calls=10, size=16_000)
        before = sum(path.stat().st_size for path in tmp_path.iterdir() if path.is_file())
        keep(tmp_path, Retention(0, 2 * 2**20))
        ((total,),) = rows(tmp_path, "SELECT SUM(value_bytes) FROM executions")
        assert 1.5 * 2**20 < total <= 2 * 2**20
        left = names(tmp_path)
        assert left == ["a_runs", *(f"x{number:03}" for number in range(80 - len(left) + 1, 80))], "the newest"
        assert rows(tmp_path, ORPHANS) == [(0,)]
        assert before > 12 * 2**20, "control"
        ((pages,),) = rows(tmp_path, "PRAGMA page_count")
        assert pages * 4096 < 4 * 2**20
        assert (tmp_path / f"{FILE_NAME}").stat().st_size < 4.5 * 2**20

    def test_the_oldest_rows_are_deleted(self, tmp_path: Path) -> None:
        record(tmp_path, *(f"x{number:03}" for number in range(20)))
        change(tmp_path, "UPDATE executions SET record_bytes = 100000")
        record(tmp_path, "runs", settled=False)
        keep(tmp_path, records=Retention(0, 2**20))
        left = [name for (name,) in rows(tmp_path, "SELECT execution_id FROM executions ORDER BY 1")]
        assert left == ["runs", *(f"x{number:03}" for number in range(11, 20))]

    def test_the_newest_execution_stays_however_large(self, tmp_path: Path) -> None:
        record(tmp_path, "old", calls=10, size=16_000)
        record(tmp_path, "large", calls=200, size=16_000)
        keep(tmp_path, Retention(0, 2 * 2**20))
        assert "large" in names(tmp_path)
        record(tmp_path, "newer", calls=1, size=16_000)
        keep(tmp_path, Retention(0, 2 * 2**20))
        assert names(tmp_path) == ["newer"], "control: once it is not the newest, it goes"


def test_the_log_of_changes_is_cut_back_after_a_large_one(tmp_path: Path) -> None:
    with closing(Database(tmp_path)) as database:
        log = tmp_path / f"{FILE_NAME}-wal"
        large = {"kind": "m", "key": "k", "value": bytes(20 * 2**20), "used_at": 0.0}
        database.transact(lambda connection: connection.execute(insert(cache), large))
        assert log.stat().st_size > 20 * 2**20, "control"
        for name in "ab":
            begin_execution(database, name)
        assert log.stat().st_size <= 4 * 2**20


def test_two_products_may_delete_at_once_while_a_third_writes(tmp_path: Path) -> None:
    for number in range(40):
        record(tmp_path, f"x{number:03}", calls=20, size=4_000)
    retention = Retention(0, 2**20)
    threads = [threading.Thread(target=keep, args=(tmp_path, retention)) for _ in range(2)]
    for thread in threads:
        thread.start()
    record(tmp_path, *(f"y{number:03}" for number in range(20)), calls=5)
    for thread in threads:
        thread.join()
    keep(tmp_path, retention)
    assert {f"y{number:03}" for number in range(20)} <= set(names(tmp_path)), "the newest stay"
    ((total,),) = rows(tmp_path, "SELECT SUM(value_bytes) FROM executions")
    assert total <= 2**20
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_an_end_leaves_the_rest_for_the_next_time(tmp_path: Path) -> None:
    record(tmp_path, *(f"x{number:03}" for number in range(50)))
    upkeep = Upkeep(tmp_path, LockedFolders(tmp_path), UNBOUNDED, Retention(1, 0), clock=lambda: time.time() + 2 * DAY)
    upkeep.end()
    upkeep.pass_once()
    assert len(names(tmp_path)) == 50
    keep(tmp_path, Retention(1, 0), clock=lambda: time.time() + 2 * DAY)
    assert names(tmp_path) == []


class TestAStepThatFails:
    def test_leaves_the_deletes_to_be_done(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """The first one: the place of the owners can't be used."""
        record(tmp_path, "old")
        record(tmp_path, "runs", settled=False)
        (tmp_path / "running").write_text("a file")
        keep(tmp_path, Retention(1, 0), clock=lambda: time.time() + 5 * DAY)
        assert names(tmp_path) == ["runs"]
        assert rows(tmp_path, "SELECT status FROM executions WHERE execution_id = 'runs'") == [("interrupted",)]
        assert "running" in caplog.text
        (tmp_path / "running").unlink()
        caplog.clear()
        keep(tmp_path)
        assert caplog.text == "", "control"


async def test_much_that_is_written_starts_a_pass_before_its_time(tmp_path: Path) -> None:
    upkeep = Upkeep(tmp_path, LockedFolders(tmp_path), UNBOUNDED, Retention(0, 2**20))
    with closing(Database(tmp_path)) as database:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upkeep.run)
            with anyio.fail_after(60):
                number = 0
                while number < 1_000 and (number < 100 or len(names(tmp_path)) == number):
                    number += 1
                    begin_execution(database, f"x{number:04}", code="x" * 16_000)
                    end_execution(database, f"x{number:04}")
                    upkeep.note_written(16_000)
                    await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    assert len(names(tmp_path)) < number
