"""How many tests run at once and in which order, the keyring that they see, and which were skipped, and why."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from codemode_server.storage.database import Database, DatabasePlace
    from codemode_server.storage.database_thread import DatabaseThread
    from tests.storage.postgres import Cluster

os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
"""No test reads or changes the keyring of the person who runs it."""
os.environ["CODEMODE_STANDALONE"] = "1"
"""What a test starts ends with it; `tests/shared_server.py` is for the server that hosts share."""
# A shell starts what runs in its background with SIGINT ignored, and so would be each product that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Images of containers often set this variable. Each process of a run would then compile all tests again: 9 s of CPU.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A process for each processor runs tests. Threads of numpy beside them wait for each other, busily: 8 s in one test.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
LONGEST = (
    "tests/proof/",
    "tests/hosts/",
    "tests/test_soak.py",
    "tests/search/test_figures",
)
"""Tests that take ten seconds or more at a time."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Nothing that is collected goes away before the end. Looking for garbage in it would take seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More processes than processors: a test waits for the processes that it started half of its time."""
    return -(-3 * (os.cpu_count() or 1) // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process is left with one of them when the others have nothing more to do. One that
    needs a registry may be the first of a run, which installs."""
    for item in items:
        if item.get_closest_marker("network"):
            item.add_marker(pytest.mark.timeout(400))
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The server of this process's tests; skips or fails the test where PostgreSQL is not installed."""
    from tests.storage.postgres import cluster, programs

    found = programs()
    if found is None:
        # `.ci/run` sets it and installs PostgreSQL: tests that are skipped there are run nowhere.
        end = pytest.fail if os.environ.get("CODEMODE_NEEDS_POSTGRES") else pytest.skip
        end("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    with cluster(found) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DatabasePlace:
    """An empty database: a test that takes it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return tmp_path
    server: Cluster = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def database(place: DatabasePlace) -> Iterator[Database]:
    from codemode_server.storage.database import Database

    database = Database(place)
    yield database
    database.close()


@pytest.fixture
def thread(place: DatabasePlace) -> Iterator[DatabaseThread]:
    from codemode_server.storage.database_thread import DatabaseThread

    thread = DatabaseThread(place)
    yield thread
    thread.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason; with `-ra` alone, a reason is told once for each place that gives it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report) for report in skipped)
    if reasons:
        terminalreporter.section(f"skipped: {len(skipped)}")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    return longrepr[2].removeprefix("Skipped: ") if isinstance(longrepr, tuple) else str(longrepr)
