"""Names the process that runs an execution, and tells which of those processes live."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

from codemode_server.domain.ids import ExecutionId
from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.storage.database import Database
from codemode_server.support.private_files import NotPrivate, private_folder, private_subfolder

logger = logging.getLogger(__name__)


class DeadOwner(Protocol):
    """A process that was killed, for one that looks after what it has left."""

    @property
    def name(self) -> str: ...

    def release(self) -> None:
        """Leave it to another process."""

    def remove(self) -> object:
        """Nothing is left of it."""


class Ownership(Protocol):
    renewal_seconds: float | None
    """How often `renew` has to be called; None: never."""

    def renew(self) -> None:
        """Tell other processes that this one lives. Blocks. Raises `JournalUnavailable`."""

    def name(self) -> str | None:
        """The owner to record with an execution."""

    def require(self) -> None:
        """Before anything is sent. Raises `JournalUnavailable`: others may take this process for dead."""

    def confirm(self, connection: Connection, execution_id: ExecutionId) -> None:
        """In the transaction that records a call. Raises `JournalUnavailable`: its execution counts as interrupted."""

    def dead(self) -> Iterable[DeadOwner]:
        """The processes that were killed, one after another. Blocks. Raises as the database does."""

    def others(self) -> set[str]:
        """Names of the other owners that are alive. Blocks. Raises as `dead`."""

    def close(self) -> None: ...


def ownership(database: Database, folder: Path, *, is_shared: bool) -> Ownership:
    """That of a process with this state folder; `is_shared`: on PostgreSQL, by processes of many machines."""
    if not is_shared:
        return LockedFolders(folder)
    from codemode_server.storage.leases import Leases

    return Leases(database)


class LockedFolders:
    """The `Ownership` on SQLite: a process is alive as long as it holds the lock on the folder of its name, which,
    unlike a process id, ends with the machine and works between containers that share the state folder."""

    renewal_seconds: float | None = None

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._own: RunFolder | None = None

    def renew(self) -> None:
        """The system holds the lock."""

    def name(self) -> str | None:
        """None if no folder can be locked."""
        if self._own is None or not self._own.path.is_dir():  # somebody may have removed it
            self.close()
            try:
                self._own = RunFolder.make(self._parent())
            except (OSError, NotPrivate) as error:
                logger.debug("executions are recorded without an owner: %s", error)
                return None
        return self._own.path.name

    def require(self) -> None:
        """A lock ends with its process alone."""

    def confirm(self, connection: Connection, execution_id: ExecutionId) -> None:
        """As `require`."""

    def dead(self) -> Iterator[RunFolder]:
        """Locked. Raises `NotPrivate`, `OSError`."""
        return abandoned(self._parent())

    def others(self) -> set[str]:
        """Raises as `dead`."""
        dead = set()
        for owner in self.dead():
            dead.add(owner.path)
            owner.release()
        return {it.name for it in self._parent().iterdir() if it not in dead} - {self._own and self._own.path.name}

    def _parent(self) -> Path:
        return private_subfolder(private_folder(self._state_folder, is_readable=True), "running")

    def close(self) -> None:
        if self._own is not None:
            self._own.remove()
            self._own = None
