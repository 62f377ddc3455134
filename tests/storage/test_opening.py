"""A database that can't be opened: the message names the cause and the remedy; only a database of another version, and
real damage where the configuration says so, is set aside.

Each cause is made on a real file; the control is that the same file opens once the cause is gone.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage import sqlite as sqlite_module
from codemode_server.storage.database import Database
from codemode_server.storage.ownership import LockedFolders
from codemode_server.storage.sqlite import ASIDE_NAME, FILE_NAME, unavailable
from codemode_server.storage.tables import VERSION
from tests.storage.at_once import ROOT, STARTS, run_at_once
from tests.storage.journal_rows import begin_execution as record
from tests.storage.test_upkeep import running_product


def executions(folder: Path, file: str = FILE_NAME) -> list[str]:
    with closing(sqlite3.connect(folder / file)) as connection:
        rows = connection.execute("SELECT execution_id FROM executions ORDER BY started_at")
        return [name for (name,) in rows]


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


def execute(statement: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            connection.execute(statement)

    return change


DAMAGES = {
    "its head": overwrite(0, b"no database at all"),
    "its list of tables": overwrite(100, b"\xff" * 3_000),
    "a table is missing": execute("DROP TABLE calls"),
    "of another program": execute("PRAGMA user_version = 0"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_file_is_refused_and_stays_as_it_is(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder)
    before = (folder / FILE_NAME).read_bytes()
    with pytest.raises(JournalUnavailable, match=r"it is damaged \(.+\)\. Restore it from a backup, or move it away"):
        Database(folder)
    assert (folder / FILE_NAME).read_bytes() == before
    assert not (folder / ASIDE_NAME).exists()


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_a_database_of_another_version_is_set_aside_with_one_line(
    folder: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    execute(f"PRAGMA user_version = {version}")(folder)
    (folder / ASIDE_NAME).write_text("of an earlier one")
    with closing(Database(folder)) as database:
        record(database, "x2")
    (line,) = caplog.messages
    assert line == (
        f"the record {folder / FILE_NAME} was written by another version of codemode-server (schema {version}). "
        f"It was set aside as {folder / ASIDE_NAME}, and a new one is made."
    )
    assert (executions(folder), executions(folder, ASIDE_NAME)) == (["x2"], ["x1"])


def test_a_database_that_a_running_product_of_another_version_uses_is_refused_until_that_ends(tmp_path: Path) -> None:
    """It would find its database gone."""
    with running_product(tmp_path):
        execute(f"PRAGMA user_version = {VERSION - 1}")(tmp_path)
        with pytest.raises(JournalUnavailable, match=r"another version .* is running and uses it: end it"):
            Database(tmp_path)
        assert not (tmp_path / ASIDE_NAME).exists()
    Database(tmp_path).close()
    assert executions(tmp_path, ASIDE_NAME) == ["x1"]


def test_one_that_has_run_no_program_uses_its_database_too(folder: Path) -> None:
    running = LockedFolders(folder)
    running.renew()  # as each product does when it opens its stores
    (folder / "running" / ".DS_Store").touch()
    execute(f"PRAGMA user_version = {VERSION - 1}")(folder)
    with pytest.raises(JournalUnavailable, match="is running and uses it"):
        Database(folder)
    running.close()
    Database(folder).close()
    assert (folder / ASIDE_NAME).exists(), "control: a file in that folder is no product"


@pytest.mark.parametrize("what", ["removed", "moved", "replaced"])
def test_a_state_folder_that_goes_away_meanwhile_is_an_error(folder: Path, what: str) -> None:
    """On its open descriptor SQLite would go on writing into a file that nobody can read any more."""
    with closing(Database(folder)) as database:
        record(database, "x2")
        aside = folder.rename(folder.with_name("aside"))
        if what == "removed":
            for path in aside.iterdir():
                path.unlink()
        elif what == "replaced":
            Database(folder).close()
        with pytest.raises(JournalUnavailable, match=r"was moved or removed while .* Put it back, or restart"):
            record(database, "x3")
        if what == "moved":
            aside.rename(folder)
            record(database, "x3")
            assert executions(folder) == ["x1", "x2", "x3"], "control: it was put back"


def test_a_lock_is_an_error_of_its_own_and_nothing_is_set_aside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codemode_server.storage.sqlite._BUSY_SECONDS", 0.05)
    with (
        closing(Database(folder)) as database,
        closing(sqlite3.connect(folder / FILE_NAME)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable, match=r"another program has had it locked .* End that program"):
            record(database, "x2")
        other.execute("ROLLBACK")
        record(database, "x3")
    assert executions(folder) == ["x1", "x3"]


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


def test_what_is_no_writable_folder_is_named_with_the_remedy(tmp_path: Path) -> None:
    remedy = "writable, or set state.dir in upstream.yaml to another folder"
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder" / FILE_NAME).mkdir(parents=True)
    with mounted(tmp_path / "disk", "size=1m") as disk:
        Database(disk / "state").close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "folder", disk / "state", disk / "b"):
            with pytest.raises(JournalUnavailable, match=f"{FILE_NAME} can't be used: .*{remedy}"):
                Database(folder)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        Database(disk / "state").close()
    assert list(tmp_path.rglob("*set-aside*")) == []


OPENS_AND_CLOSES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT COUNT(*) FROM executions").fetchone()
connection.close()
"""


def test_to_explain_an_error_leaves_the_locks_of_open_connections(folder: Path) -> None:
    """A process that opens and closes a file loses all its locks on it (POSIX): another process would take itself for
    the last that has the record open, and remove the log of changes that this one still writes to."""
    log = folder / f"{FILE_NAME}-wal"
    with closing(Database(folder)) as database:
        record(database, "x2")
        unavailable(folder / FILE_NAME, sqlite3.OperationalError("disk I/O error"))
        Database(folder).close()
        command = [sys.executable, "-c", OPENS_AND_CLOSES, str(folder / FILE_NAME)]
        subprocess.run(command, timeout=60, check=True, env=os.environ)
        assert log.exists()


OPENS_AND_DIES = """
import os, sys
from pathlib import Path
from codemode_server.storage.database import Database
from tests.storage.journal_rows import begin_execution
begin_execution(Database(Path(sys.argv[1])), sys.argv[2])
os._exit(0)
"""


def test_no_file_is_set_aside_while_another_process_opens_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite opens a log by its name when it first reads: the new log would be copied into the old file."""
    execute(f"PRAGMA user_version = {VERSION - 1}")(folder)
    use_wal = sqlite_module._use_wal
    others = [subprocess.Popen([sys.executable, "-c", OPENS_AND_DIES, str(folder), "other"], cwd=ROOT)]

    def use_wal_later(connection: sqlite3.Connection) -> None:
        if others:
            other = others.pop()
            with suppress(subprocess.TimeoutExpired):
                other.wait(timeout=2)
            ended.append(other)
        use_wal(connection)

    ended: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(sqlite_module, "_use_wal", use_wal_later)
    with closing(Database(folder)) as database:
        record(database, "this")
        execute("PRAGMA wal_checkpoint(TRUNCATE)")(folder)
        assert [other.wait(timeout=60) for other in ended] == [0]
    assert executions(folder, ASIDE_NAME) == ["x1"]
    assert sorted(executions(folder)) == ["other", "this"]


SETS_ASIDE = f"""
import sys
from pathlib import Path
from codemode_server.storage.database import Database
from tests.storage.journal_rows import begin_execution
{STARTS}
database = Database(Path(sys.argv[1]))
begin_execution(database, sys.argv[2])
"""


def test_of_processes_that_meet_another_version_at_once_one_sets_it_aside_and_all_go_on(folder: Path) -> None:
    execute(f"PRAGMA user_version = {VERSION - 1}")(folder)
    run_at_once(SETS_ASIDE, folder, *"abcd")
    assert executions(folder, ASIDE_NAME) == ["x1"]
    assert sorted(executions(folder)) == ["a", "b", "c", "d"]
