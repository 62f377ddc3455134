"""A PostgreSQL server of the tests: Debian's, in a temporary folder, on a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg

from codemode_server.storage.database import PostgresAddress

_USER = "postgres"
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "logging_collector": "off",
}
_WITHOUT_DISK = {"fsync": "off", "full_page_writes": "off"}
GUARDED = "guarded"
"""A user whom the server asks for a password."""


def programs() -> Path | None:
    """The folder of the server's programs, which Debian has outside of PATH; None if it is not installed."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@dataclass
class Cluster:
    """A server of its own for the tests of one process."""

    folder: Path
    programs: Path
    waits_for_disk: bool
    """What is committed survives a power cut; the tests need not wait for that."""

    def __post_init__(self) -> None:
        self._numbers = count()
        self._server: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, _USER, _USER)
        data = self.folder / "data"
        options = ("--auth=trust", f"--username={_USER}", "--no-sync", "--encoding=UTF8", "--locale=C")
        subprocess.run([*_as_user(), self.programs / "initdb", "-D", data, *options], check=True, capture_output=True)
        rules = f"local all {GUARDED} scram-sha-256\nlocal all all trust\n"
        (data / "pg_hba.conf").write_text(rules)

    def start(self) -> None:
        wanted = _SETTINGS if self.waits_for_disk else _SETTINGS | _WITHOUT_DISK
        settings = [it for name, value in wanted.items() for it in ("-c", f"{name}={value}")]
        places = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen([*_as_user(), *places, *settings], stdout=log, stderr=log, cwd=self.folder)
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it now: SIGINT ends the connections, SIGQUIT the processes, without a checkpoint."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(60)

    def database(self) -> PostgresAddress:
        """A new, empty one."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str, user: str = _USER, password: str | None = None) -> PostgresAddress:
        return PostgresAddress(f"postgresql://{user}@/{name}?host={self.folder}", password)

    def execute(self, statement: str, database: str = _USER) -> list[tuple[object, ...]]:
        with psycopg.connect(self.address(database).url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return


def _as_user() -> list[str]:
    """The server refuses to run as root. It ends with the process of the tests."""
    user = [f"--reuid={_USER}", f"--regid={_USER}", "--init-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "INT", "--"]


@contextmanager
def cluster(programs: Path, *, waits_for_disk: bool = False) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder), programs, waits_for_disk)
        made.start()
        try:
            yield made
        finally:
            made.stop()
