"""Sixteen writers in four processes on one database: every step that was confirmed is there once, and none fails.

Half of the steps add one to the same row, by what they have read of it, and half write rows of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.tables import cache, processes
from tests.storage.at_once import ROOT

PROCESSES, WRITERS = 4, 4
WRITES = """
import asyncio, json, sys, time
from pathlib import Path
from sqlalchemy import bindparam, insert, select, update
from codemode_server.storage.database import PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tables import cache, processes

place, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
thread = DatabaseThread(PostgresAddress(place) if "://" in place else Path(place))
counted = select(processes.c.seen_at).where(processes.c.name == "shared")
advance = update(processes).where(processes.c.name == "shared").values(seen_at=bindparam("seen"))

def add(connection):
    connection.execute(advance, {"seen": connection.execute(counted).scalar_one() + 1})

async def write(writer, until):
    done = 0
    while time.monotonic() < until:
        row = {"kind": name, "key": f"{writer}-{done}", "value": b"x" * 200, "used_at": time.time()}
        await thread.run(lambda connection: connection.execute(insert(cache), row))
        await thread.run(add, is_durable=done % 16 == 0)
        done += 1
    return done

async def main():
    until = time.monotonic() + seconds
    return sum(await asyncio.gather(*(write(it, until) for it in range(int(sys.argv[4])))))

done = asyncio.run(main())
thread.close()
print(json.dumps(done))
"""


@pytest.mark.parametrize("seconds", [2, pytest.param(120, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_no_update_is_lost_and_no_step_fails(place: DatabasePlace, seconds: int) -> None:
    address = str(place) if isinstance(place, Path) else place.url
    with closing(Database(place)) as database:
        database.transact(lambda connection: connection.execute(insert(processes), {"name": "shared", "seen_at": 0.0}))
        command = [sys.executable, "-c", WRITES, address]
        writers = [
            subprocess.Popen([*command, name, str(seconds), str(WRITERS)], cwd=ROOT, stdout=subprocess.PIPE)
            for name in "abcd"[:PROCESSES]
        ]
        outputs = [writer.communicate(timeout=seconds + 100)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * PROCESSES
        done = sum(map(json.loads, outputs))
        with database.begin(reads=True) as connection:
            rows = connection.execute(select(func.count()).select_from(cache)).scalar_one()
            added = connection.execute(select(processes.c.seen_at)).scalar_one()
    assert (rows, added) == (done, done)
    assert done >= PROCESSES * WRITERS, "control: each wrote"
    print(f"{done / seconds:.0f} pairs of steps a second")
