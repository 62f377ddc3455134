"""The names and folders of one run of the product, and of runs that crashed: those are cleaned up, nobody else's.

Each run has a folder under MSB_HOME, locked for as long as the process lives, and its machines are named after it. The
system takes a dead process's lock back, so a folder whose lock can be had is a leftover, and so are its machines.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import secrets
import shutil
from pathlib import Path

import anyio.to_thread

from codemode_server.errors import SandboxUnavailable
from codemode_server.sandbox.microvm.machine import destroy

_log = logging.getLogger(__name__)
_PREFIX = "codemode-"
_LOCK = "lock"


class Run:
    """This run's own folder and names."""

    def __init__(self, home: Path) -> None:
        self._runs = home / "codemode"
        self.name = secrets.token_hex(4)
        self.folder = self._runs / self.name
        self._numbers = itertools.count(1)
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder and lock it.

        Raises:
            SandboxUnavailable: it can't be made.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True)
            self._lock = _locked(self.folder)
        except OSError as error:
            raise SandboxUnavailable(
                f"the folder {self._runs} can't be used for microVMs: {error.strerror}; "
                "make it writable, or set MSB_HOME to a folder that is"
            ) from error

    def next_name(self) -> str:
        """A name that no machine ever had: one whose owner died can't be used again."""
        return f"{_PREFIX}{self.name}-{next(self._numbers):04d}"

    def close(self, *, is_clean: bool) -> None:
        """Give the folder up; unless all machines are gone, it stays to tell the next run of them."""
        if self._lock is not None:
            if is_clean:
                shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    async def clean_leftovers(self) -> int:
        """Kill and strike off the machines of runs that are dead; gives how many there were."""
        from microsandbox import Sandbox
        from microsandbox.errors import MicrosandboxError

        dead = await anyio.to_thread.run_sync(self._dead_runs)
        count = 0
        try:
            if dead:
                names = [box.name for box in (await Sandbox.list()).sandboxes]
                for name in names:
                    if any(name.startswith(f"{_PREFIX}{run}-") for run in dead):
                        count += await destroy(name, None)
        except MicrosandboxError as error:
            _log.warning("microVMs that an earlier run left could not be cleaned up: %s", error)
        finally:
            for lock in dead.values():
                os.close(lock)
        for run in dead:
            shutil.rmtree(self._runs / run, ignore_errors=True)
        return count

    def _dead_runs(self) -> dict[str, int]:
        """Runs whose lock can be had, with the lock, so that two products don't clean the same."""
        dead: dict[str, int] = {}
        for folder in self._runs.iterdir() if self._runs.is_dir() else ():
            if folder.name != self.name and folder.is_dir():
                with contextlib.suppress(OSError):
                    dead[folder.name] = _locked(folder)
        return dead


def _locked(folder: Path) -> int:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
