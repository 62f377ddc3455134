"""The database of a test: each test that takes `place` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from tests.storage.postgres import Cluster, cluster, programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The server of this process's tests; skips or fails the test where PostgreSQL is not installed."""
    found = programs()
    if found is None:
        # `.ci/run` sets it and installs PostgreSQL: tests that are skipped there are run nowhere.
        end = pytest.fail if os.environ.get("CODEMODE_NEEDS_POSTGRES") else pytest.skip
        end("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    with cluster(found) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DatabasePlace:
    if request.param == "sqlite":
        return tmp_path
    server: Cluster = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def database(place: DatabasePlace) -> Iterator[Database]:
    database = Database(place)
    yield database
    database.close()


@pytest.fixture
def thread(place: DatabasePlace) -> Iterator[DatabaseThread]:
    thread = DatabaseThread(place)
    yield thread
    thread.close()
