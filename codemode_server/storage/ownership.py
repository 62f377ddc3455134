"""Which executions a living product runs, so that those of a killed one can be told apart on a shared database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from codemode_server.private_files import NotPrivate, private_folder, private_subfolder
from codemode_server.processes.run_folder import RunFolder, abandoned

logger = logging.getLogger(__name__)


class Ownership:
    """This product's name as an owner, alive for as long as its folder is locked.

    A lock, and no process number: it ends with kill -9 and with the machine, no later process can have the same, and
    it holds between containers that share the state folder.
    """

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._own: RunFolder | None = None
        self._names: set[str] = set()
        """The own names so far: somebody may remove the folder of one while its executions run."""

    def name(self) -> str | None:
        """The owner to record with an execution; None where nothing can be locked."""
        if self._own is None or not self._own.path.is_dir():  # somebody may have tidied up
            self.close()
            try:
                self._own = RunFolder.make(self._parent())
            except (OSError, NotPrivate) as error:
                logger.debug("executions are recorded without an owner: %s", error)
                return None
            self._names.add(self._own.path.name)
        return self._own.path.name

    def dead(self) -> Iterator[RunFolder]:
        """The folders of products that were killed, taken over; their names are owners.

        Raises:
            NotPrivate, OSError: the folder that they are in can't be used.
        """
        return abandoned(self._parent())

    def gone(self, owners: Iterable[str]) -> list[str]:
        """Those of the owners that have no folder. They had one before anything was recorded with their name, so they
        must have been read from the record before this is called.

        Raises:
            NotPrivate, OSError: the folder that they are in can't be used.
        """
        there = {path.name for path in self._parent().iterdir()} | self._names
        return [owner for owner in owners if owner not in there]

    def _parent(self) -> Path:
        return private_subfolder(private_folder(self._state_folder, is_readable=True), "running")

    def close(self) -> None:
        """This product runs nothing any more."""
        if self._own is not None:
            self._own.remove()
            self._own = None
