"""A database that can't be opened: what is wrong is said truly, with what mends it; only real damage is set aside, and
only where the configuration says so.

Each cause is made on a real file; the control is that the same file opens once the cause is gone.
"""

from __future__ import annotations

import itertools
import os
import resource
import sqlite3
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import JournalDamaged, JournalFull, JournalUnavailable
from codemode_server.storage.database import FILE_NAME, Database, set_aside
from codemode_server.storage.migrations import MIGRATIONS
from codemode_server.storage.unusable import unavailable
from tests.storage.at_once import STARTS, run_at_once
from tests.storage.journal_rows import begin_execution as record

ROOT = Path(__file__).parents[2]


def executions(folder: Path, file: str = FILE_NAME) -> list[str]:
    with closing(sqlite3.connect(folder / file)) as connection:
        return [
            name for (name,) in connection.execute("SELECT execution_id FROM journal_executions ORDER BY started_at")
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with a sound record of one execution."""
    with closing(Database(tmp_path / "state")) as database:
        record(database, "x1")
    return tmp_path / "state"


def overwrite(at: int, data: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with (folder / FILE_NAME).open("r+b") as file:
            file.seek(at)
            file.write(data)

    return damage


def drop_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.execute("DROP TABLE journal_calls")


DAMAGES = {
    "its head": overwrite(0, b"no database at all"),
    "its list of tables": overwrite(100, b"\xff" * 3_000),
    "a table is missing": drop_table,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
class TestADamagedFile:
    def test_is_refused_and_left_as_it_is(self, folder: Path, damage: Callable[[Path], None]) -> None:
        damage(folder)
        before = (folder / FILE_NAME).read_bytes()
        with pytest.raises(JournalDamaged, match=r"it is damaged \(.+\)\. Restore it .* state\.on_damage: set_aside"):
            Database(folder)
        assert (folder / FILE_NAME).read_bytes() == before

    def test_is_set_aside_where_that_is_allowed(
        self, folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        damage(folder)
        before = (folder / FILE_NAME).read_bytes()
        with closing(Database(folder, on_damage="set_aside")) as database:
            record(database, "x2")
        (aside,) = folder.glob("codemode.db.damaged-*")
        assert aside.read_bytes() == before
        assert executions(folder) == ["x2"]
        assert f"set aside as {aside}" in caplog.text
        Database(folder).close()


def test_damage_that_is_met_later_is_told_and_found_again_at_the_next_start(folder: Path) -> None:
    """SQLite reads a page when it needs it, so a file whose middle is damaged opens."""
    with closing(Database(folder)) as database, database.change() as connection:
        connection.executemany(
            "INSERT INTO journal_executions (execution_id, session_id, principal, is_ephemeral, started_at, status)"
            " VALUES (?, 's', 'default', 0, 0, 'failed')",
            [(f"y{number}" * 20,) for number in range(500)],
        )
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'journal_executions'").fetchone()
    overwrite((page - 1) * 4096, b"\xff" * 4096)(folder)
    with (
        closing(Database(folder)) as database,
        pytest.raises(JournalDamaged, match="it is damaged"),
        database.use() as connection,
    ):
        connection.execute("SELECT count(execution_id || status) FROM journal_executions").fetchone()
    with pytest.raises(JournalDamaged, match="it is damaged"):
        Database(folder)
    with closing(Database(folder, on_damage="set_aside")) as database:
        record(database, "x2")
    assert executions(folder) == ["x2"]
    Database(folder).close()


def test_damage_that_is_met_while_running_is_set_aside_at_once_where_that_is_allowed(folder: Path) -> None:
    with closing(Database(folder, on_damage="set_aside")) as database:
        drop = database._connection
        drop.execute("PRAGMA writable_schema = ON")
        drop.execute("UPDATE sqlite_master SET rootpage = 9999 WHERE name = 'journal_calls'")
        drop.execute("PRAGMA writable_schema = RESET")
        with pytest.raises(JournalDamaged), database.use() as connection:
            connection.execute("SELECT * FROM journal_calls").fetchall()
        record(database, "x2")
    assert executions(folder) == ["x2"]


def damage_an_index(folder: Path) -> None:
    """Have one entry of an index name another time than its row, as a write that never reached the disk leaves it."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'journal_by_principal'"
        ).fetchone()
        ((at,),) = connection.execute("SELECT started_at FROM journal_executions")
    file = folder / FILE_NAME
    content = file.read_bytes()
    where = content.index(struct.pack(">d", at), (page - 1) * 4096, page * 4096)
    file.write_bytes(content[:where] + struct.pack(">d", at + 1) + content[where + 8 :])


def delete_all(database: Database) -> None:
    with database.use() as connection:
        connection.execute("DELETE FROM journal_executions WHERE execution_id != ''")


class TestADamagedIndex:
    """`quick_check` does not see it: the index is a sound tree, only of other entries than the table's."""

    def test_opens_and_is_found_at_the_next_start_after_a_write_met_it(self, folder: Path) -> None:
        Database(folder).close()
        damage_an_index(folder)
        with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)], "control"
        with closing(Database(folder)) as database:
            record(database, "x2")
            with pytest.raises(JournalDamaged, match=r"state\.on_damage: set_aside"):
                delete_all(database)
        for _ in range(2):
            with pytest.raises(JournalDamaged, match="index journal_by_principal"):
                Database(folder)
        with closing(Database(folder, on_damage="set_aside")) as database:
            record(database, "x3")
            delete_all(database)
            record(database, "x4")
        assert executions(folder) == ["x4"]
        (aside,) = set_aside(folder)
        assert sorted(executions(folder, aside)) == ["x1", "x2"]

    def test_that_is_met_while_running_is_set_aside_on_sqlite_s_word(self, folder: Path) -> None:
        damage_an_index(folder)
        with closing(Database(folder, on_damage="set_aside")) as database:
            with pytest.raises(JournalDamaged):
                delete_all(database)
            delete_all(database)
            record(database, "x2")
        assert executions(folder) == ["x2"]
        assert len(set_aside(folder)) == 1

    def test_is_looked_for_at_a_start_only_since_that_is_in_a_thread(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mark, statements = folder / f"{FILE_NAME}.damage-met", list[str]()
        with closing(Database(folder)) as database:
            folder.rename(folder.with_name("aside"))
            Database(folder).close()
            mark.touch(0o600)
            monkeypatch.setattr(sqlite3, "connect", traced(sqlite3.connect, statements))
            record(database, "x2")
        examined = "PRAGMA integrity_check(1)"
        assert examined not in statements, "the event loop uses what is there now"
        assert executions(folder) == ["x2"]
        Database(folder).close()
        assert examined in statements, "control"

    def test_that_another_product_has_set_aside_meanwhile_is_not_set_aside_twice(self, folder: Path) -> None:
        damage_an_index(folder)
        with (
            closing(Database(folder, on_damage="set_aside")) as one,
            closing(Database(folder, on_damage="set_aside")) as other,
        ):
            for database in (one, other):
                with pytest.raises(JournalDamaged):
                    delete_all(database)
            record(one, "x2")
            record(other, "x3")
        assert executions(folder) == ["x2", "x3"]
        assert len(set_aside(folder)) == 1

    def test_mark_without_damage_is_removed_at_the_next_start(self, folder: Path) -> None:
        """The control of the examination: a sound file stays."""
        mark = folder / f"{FILE_NAME}.damage-met"
        mark.touch(0o600)
        Database(folder, on_damage="set_aside").close()
        assert not mark.exists()
        assert set_aside(folder) == []
        assert executions(folder) == ["x1"]


def traced(connect: Callable[..., sqlite3.Connection], statements: list[str]) -> Callable[..., sqlite3.Connection]:
    def traced_connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    return traced_connect


def test_two_that_are_set_aside_within_a_moment_both_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would have replaced the first under its name."""
    monkeypatch.setattr("time.time", itertools.count(5.0, 1e-7).__next__)
    DAMAGES["a table is missing"](folder)
    with closing(Database(folder, on_damage="set_aside")) as database:
        record(database, "x2")
    DAMAGES["a table is missing"](folder)
    Database(folder, on_damage="set_aside").close()
    assert [executions(folder, name) for name in set_aside(folder)] == [["x1"], ["x2"]]


def test_a_lock_is_told_as_one_and_never_set_aside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codemode_server.storage.database._BUSY_SECONDS", 0.05)
    with (
        closing(Database(folder, on_damage="set_aside")) as database,
        closing(sqlite3.connect(folder / FILE_NAME)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            JournalUnavailable, match=r"another program has had it locked .* End that program"
        ) as caught:
            record(database, "x2")
        assert type(caught.value) is JournalUnavailable
        other.execute("ROLLBACK")
        record(database, "x3")
    assert executions(folder) == ["x1", "x3"]


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(
        JournalUnavailable, match=r"can't be used: it is a folder\. Set state\.dir .* or move that folder away"
    ):
        Database(tmp_path, on_damage="set_aside")
    (tmp_path / FILE_NAME).rmdir()
    Database(tmp_path).close()


@pytest.mark.parametrize("inside", [".", "deeper/still"])
def test_a_file_in_the_place_of_its_folder_is_told(tmp_path: Path, inside: str) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(JournalUnavailable, match=r"state is no folder\. Set state\.dir .* or move that file away"):
        Database(tmp_path / "state" / inside, on_damage="set_aside")
    (tmp_path / "state").unlink()
    Database(tmp_path / "state" / inside).close()


OPENS_AS_NOBODY = """
import os, sys
from pathlib import Path
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    Database(Path(sys.argv[1]), on_damage="set_aside")
    print("opened")
except JournalUnavailable as error:
    print(type(error).__name__, error)
"""


def opened_as_nobody(folder: Path) -> str:
    """As somebody else than root, for whom nothing is read-only."""
    command = [sys.executable, "-c", textwrap.dedent(OPENS_AS_NOBODY), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that everybody may pass through and write to, but not exchange what is another's in it, as in /tmp."""
    for place in (tmp_path, *tmp_path.parents):
        if place.name.startswith(("pytest-", "popen-", "test_")):
            place.chmod(0o755)
    made = tmp_path / "shared"
    made.mkdir()
    made.chmod(0o1777)
    return made


def test_a_folder_or_file_that_can_not_be_written_is_told_with_its_owner(shared: Path) -> None:
    assert opened_as_nobody(shared / "control") == "opened\n"
    closed = shared / "closed"
    closed.mkdir(mode=0o555)
    told = f"you may not write to {closed} (mode 555, user {os.getuid()}). Make that folder yours (chown), or set state"
    assert told in opened_as_nobody(closed)
    assert told in opened_as_nobody(closed / "state")
    file = shared / "control" / FILE_NAME
    if os.getuid() == 0:
        os.chown(file, 0, 0)
        assert f"'{file}' belongs to root (uid 0); run codemode-server as that user" in opened_as_nobody(file.parent)
    assert list(shared.rglob("*.damaged-*")) == []


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_read_only_disk_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        Database(disk / "state").close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for folder in (disk / "state", disk / "other"):
            with pytest.raises(JournalUnavailable, match=r"is read-only\. Mount it for writing, or set state\.dir"):
                Database(folder, on_damage="set_aside")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        Database(disk / "state").close()


def test_a_full_disk_is_told_and_nothing_is_set_aside(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        with pytest.raises(OSError, match="No space left"):
            (disk / "filler").write_bytes(bytes(2**21))
        with pytest.raises(
            JournalFull, match=r"disk is full\. Free some disk space; `codemode-server workspace clean`"
        ):
            Database(disk / "state", on_damage="set_aside")
        (disk / "filler").unlink()
        Database(disk / "state").close()
        assert list((disk / "state").glob("*damaged*")) == []


def test_too_many_open_files_are_told(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))  # room for one
        with pytest.raises(JournalUnavailable, match=r"too many files are open\. Raise the limit"):
            Database(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    Database(folder).close()


def test_an_error_of_another_kind_is_told_as_sqlite_says_it(folder: Path) -> None:
    told = str(unavailable(folder / FILE_NAME, sqlite3.OperationalError("disk I/O error")))
    assert "can't be used: disk I/O error. If the disk is sound" in told


OPENS_AND_CLOSES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT COUNT(*) FROM journal_executions").fetchone()
connection.close()
"""


def test_to_look_for_the_cause_leaves_the_locks_of_open_connections(folder: Path) -> None:
    """A process that opens and closes a file loses all its locks on it (POSIX): another product would take itself for
    the last that has the record open, and remove the log of changes that this one still writes to."""

    def opened_by_another() -> None:
        command = [sys.executable, "-c", OPENS_AND_CLOSES, str(folder / FILE_NAME)]
        subprocess.run(command, timeout=30, check=True)

    log = folder / f"{FILE_NAME}-wal"
    with closing(Database(folder)) as database:
        record(database, "x2")
        opened_by_another()
        assert log.exists(), "control"
        unavailable(folder / FILE_NAME, sqlite3.OperationalError("disk I/O error"))
        opened_by_another()
        assert log.exists()


def test_a_newer_schema_is_not_set_aside(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(JournalUnavailable, match="written by a newer codemode-server"):
        Database(folder, on_damage="set_aside")
    assert executions(folder) == ["x1"]


@pytest.mark.parametrize("what", ["removed", "moved", "replaced"])
def test_a_state_folder_that_goes_away_meanwhile_is_made_anew(
    folder: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On its open descriptor SQLite would go on writing into a file that nobody can read any more."""
    with closing(Database(folder)) as database:
        record(database, "x2")
        assert caplog.text == "", "control"
        aside = folder.rename(folder.with_name("aside"))
        if what == "removed":
            for path in aside.iterdir():
                path.unlink()
            aside.rmdir()
        elif what == "replaced":
            Database(folder).close()
        record(database, "x3")
        record(database, "x4")
    assert executions(folder) == ["x3", "x4"]
    assert "was moved, removed or damaged" in caplog.text
    if what != "removed":
        assert executions(aside) == ["x1", "x2"]


SETS_ASIDE = f"""
import sys
from pathlib import Path
from codemode_server.storage.database import Database
from tests.storage.journal_rows import begin_execution
{STARTS}
database = Database(Path(sys.argv[1]), on_damage="set_aside")
begin_execution(database, sys.argv[2])
"""


def test_of_products_that_meet_the_damage_at_once_one_sets_it_aside_and_all_go_on(folder: Path) -> None:
    DAMAGES["its head"](folder)
    run_at_once(SETS_ASIDE, folder, *"abcd")
    assert len(list(folder.glob("codemode.db.damaged-*"))) == 1
    assert sorted(executions(folder)) == ["a", "b", "c", "d"]
