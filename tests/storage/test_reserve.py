"""The reserve: space that a full disk still has for the record, on real small disks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from codemode_server.catalog.observed import ToolKey
from codemode_server.domain.errors import JournalFull
from codemode_server.storage.database import FILE_NAME, Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.reserve import SIZE_BYTES, SLICE_BYTES, Reserve
from codemode_server.storage.tool_tables import SqliteObservedTypeStore
from codemode_server.storage.upkeep import Retention, Upkeep
from tests.storage.journal_rows import begin_execution, end_execution


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Fill a disk up to so many bytes."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            if left and os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize <= left:
                break
    return filler


def free(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def test_it_takes_the_space_once_and_gives_it_up_in_parts(disk: Path) -> None:
    reserve, before = Reserve(disk), free(disk)
    assert reserve.take()
    assert reserve.take()
    assert before - free(disk) == SIZE_BYTES
    assert (disk / "reserve").stat().st_mode & 0o777 == 0o600
    assert reserve.give_up()
    assert before - free(disk) == SIZE_BYTES - SLICE_BYTES
    assert not reserve.is_held
    assert [reserve.give_up() for _ in range(SIZE_BYTES // SLICE_BYTES)][-2:] == [True, False]
    assert free(disk) == before
    assert reserve.take(), "again, once there is room"


def test_it_is_not_what_fills_the_disk(disk: Path) -> None:
    filler = fill(disk, left=3 * SIZE_BYTES)
    assert not Reserve(disk).take()
    filler.unlink()
    assert Reserve(disk).take()


def test_a_write_of_the_record_that_finds_the_disk_full_is_done_with_the_reserve(
    disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Database(disk)) as database:

        def write(name: str) -> None:
            begin_execution(database, name, code="x" * 50_000)

        write("before")
        assert database.reserve.take()
        fill(disk)
        for number in range(5):
            write(f"x{number}")
        assert not database.reserve.is_held
        assert "of its reserve for the record 3840 KiB are left" in caplog.text
        with suppress(JournalFull):
            for number in range(200):
                write(f"y{number}")
        with pytest.raises(JournalFull, match="Free some disk space"):
            write("z")
        (disk / "filler").unlink()
        write("after")
        with database.use() as connection:
            names = {name for (name,) in connection.execute("SELECT execution_id FROM journal_executions")}
    assert {"before", *(f"x{number}" for number in range(5)), "after"} <= names


def test_a_database_on_a_full_disk_is_opened_with_the_reserve(disk: Path) -> None:
    with closing(Database(disk)) as database:
        assert database.reserve.take()
    fill(disk)
    with closing(Database(disk)) as database:
        assert not database.reserve.is_held
        begin_execution(database, "x")


def test_what_a_killed_product_left_unfinished_is_made_anew(disk: Path) -> None:
    (disk / "reserve.new").write_bytes(b"x" * 1_000)
    assert Reserve(disk).take()
    assert [path.name for path in disk.iterdir()] == ["reserve"]


def test_a_program_that_goes_on_filling_the_disk_leaves_a_part_for_the_next_one(disk: Path) -> None:
    with closing(Database(disk)) as database:
        assert database.reserve.take()
        for number in range(10):
            fill(disk)
            begin_execution(database, f"x{number}")
        assert (disk / "reserve").stat().st_size >= SIZE_BYTES // 4


async def test_what_can_be_made_anew_is_not_written_with_the_last_of_the_space(disk: Path) -> None:
    key = ToolKey("github", "list", "d")
    with closing(Database(disk)) as database, closing(DatabaseThread(disk)) as thread:
        shapes = SqliteObservedTypeStore(database, thread)
        assert await shapes.update({key: lambda known: "x"}), "control"
        filler = fill(disk, left=SIZE_BYTES - 8192)
        assert not await shapes.update({key: lambda known: "y"})
        begin_execution(database, "x")
        filler.unlink()
        assert await shapes.update({key: lambda known: "z"})


@pytest.mark.parametrize("reserve", [True, False])
def test_old_records_are_deleted_on_a_full_disk_with_the_reserve(
    disk: Path, reserve: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is what frees space. Without a reserve, the control, there is no room for the log of changes."""
    with closing(Database(disk)) as database:
        for number in range(100):
            begin_execution(database, f"x{number}", code="x" * 50_000)
            end_execution(database, f"x{number}")
    before = (disk / FILE_NAME).stat().st_size
    if reserve:
        assert Reserve(disk).take()
    fill(disk)
    in_two_days = time.time() + 2 * 86_400
    Upkeep(disk, Ownership(disk), Retention(0, 0), Retention(1, 0), clock=lambda: in_two_days).pass_once()
    assert ("old records can't be deleted: the record" in caplog.text) is not reserve
    assert (free(disk) > before // 2) is reserve
    (disk / "filler").unlink()
    with closing(Database(disk)) as database, database.use() as connection:
        assert connection.execute("SELECT COUNT(*) FROM journal_executions").fetchone() == (0 if reserve else 100,)


def test_an_end_leaves_it_to_the_next_product(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    assert not Reserve(tmp_path).take(lambda: next(answers))
    assert list(tmp_path.iterdir()) == []
    assert Reserve(tmp_path).take(), "control"
