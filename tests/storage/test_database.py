"""The record on disk: one SQLite file that several products share, that only its user reads, and that says how each
execution and call ended; where it can't be written, the message names the file and the remedy.

Real products and real processes; what is read here is read as a person would, with `sqlite3` on the file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from codemode_server.storage.tables import VERSION
from tests.behaviour.product import configuration, office, over_stdio
from tests.database import rows
from tests.files import modes
from tests.storage.at_once import STARTS, run_at_once

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
        assert rows(folder, "SELECT count(*) FROM executions") == [(150,)]


async def test_all_that_a_product_keeps_is_readable_by_its_user_only(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    before = os.umask(0)
    try:
        async with over_stdio(path) as host:
            await host.run("open('/workspace/notes.txt', 'w').write('x')")
            found = modes(tmp_path / "state")
            kept = {str(place.relative_to(tmp_path)): stat.S_IMODE(mode) for place, mode in found.items()}
    finally:
        os.umask(before)
    assert {"state/codemode.db", "state/workspaces/default/notes.txt"} <= set(kept)
    # Below a folder that others can't enter, a file's own mode adds nothing.
    shared = {name for name, mode in kept.items() if mode & 0o077}
    closed = {name for name in kept if name not in shared}
    assert {name for name in shared if not any(name.startswith(f"{folder}/") for folder in closed - {"state"})} == set()
    assert kept["state"] == 0o700
