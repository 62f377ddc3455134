"""Names the process that runs an execution, its owner, and finds out which owners are alive."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

from codemode_server.domain.ids import ExecutionId
from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.storage.database import Database
from codemode_server.support.private_files import NotPrivate, private_folder, private_subfolder

logger = logging.getLogger(__name__)
RUNNING = "running"
"""Folder of the state folder with the folders of the processes that live."""


class Ownership(Protocol):
    renewal_seconds: float | None
    """How often `renew` has to be called; None: never."""

    def renew(self) -> None:
        """Tell other processes that this one is alive. Blocks. Raises `JournalUnavailable`."""

    def name(self) -> str | None:
        """The owner to record with an execution."""

    def require(self) -> None:
        """Called before anything is sent. Raises `JournalUnavailable`: others may take this process for dead."""

    def confirm(self, connection: Connection, execution_id: ExecutionId) -> None:
        """Called in the transaction that records a call. Raises `JournalUnavailable`: another process has ended the
        execution."""

    def settle_dead(self, settle: Callable[[str], None]) -> None:
        """Call `settle` with the name of each owner that was killed, and then forget that owner; if `settle` raises,
        leave it to another process. Blocks. Raises `JournalUnavailable`, `NotPrivate`, `OSError`."""

    def others(self) -> set[str]:
        """Names of the other owners that are alive. Blocks. Raises as `settle_dead`."""

    def close(self) -> None: ...


def ownership(database: Database, folder: Path, *, is_shared: bool) -> Ownership:
    """That of a process with this state folder; `is_shared`: processes with other state folders use it, too."""
    if not is_shared:
        return LockedFolders(folder)
    from codemode_server.storage.leases import Leases

    return Leases(database)


class LockedFolders:
    """The `Ownership` on SQLite: a process is alive as long as it holds the lock on the folder of its name. Unlike a
    process id, that works between containers which share the state folder, and after a restart of the machine."""

    renewal_seconds: float | None = None

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._own: RunFolder | None = None

    def renew(self) -> None:
        """Lock a folder, if none is: from then on the system shows others that this process lives."""
        self.name()

    def name(self) -> str | None:
        """None if no folder can be locked."""
        if self._own is None or not self._own.path.is_dir():  # somebody may have removed it
            self.close()
            try:
                self._own = RunFolder.make(self._parent())
            except (OSError, NotPrivate) as error:
                logger.debug("executions are recorded without an owner: %s", error)
                return None
        return self._own.name

    def require(self) -> None:
        """Nothing to check: nobody else can end the lock."""

    def confirm(self, connection: Connection, execution_id: ExecutionId) -> None:
        """As `require`."""

    def settle_dead(self, settle: Callable[[str], None]) -> None:
        for folder in abandoned(self._parent()):
            try:
                settle(folder.name)
            except BaseException:
                folder.release()
                raise
            folder.remove()

    def others(self) -> set[str]:
        dead = set()
        for folder in abandoned(self._parent()):
            dead.add(folder.name)
            folder.release()
        return {it.name for it in self._parent().iterdir() if it.is_dir()} - dead - {self._own and self._own.name}

    def _parent(self) -> Path:
        return private_subfolder(private_folder(self._state_folder, is_readable=True), RUNNING)

    def close(self) -> None:
        if self._own is not None:
            self._own.remove()
            self._own = None
