"""Names the product that runs an execution, so that executions of killed products are recognised."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from codemode_server.private_files import NotPrivate, private_folder, private_subfolder
from codemode_server.processes.run_folder import RunFolder, abandoned

logger = logging.getLogger(__name__)


class Ownership:
    """This product's name as an owner; the product is alive as long as it holds the lock on the folder of that name.

    A lock is better than a process id: it ends with the process or the machine, no later process can have the same, and
    it works between containers that share the state folder.
    """

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._own: RunFolder | None = None
        self._names: set[str] = set()
        """All names of this product: it takes a new one if somebody removed the folder while executions run."""

    def name(self) -> str | None:
        """The owner to record with an execution; None if no folder can be locked."""
        if self._own is None or not self._own.path.is_dir():  # somebody may have removed it
            self.close()
            try:
                self._own = RunFolder.make(self._parent())
            except (OSError, NotPrivate) as error:
                logger.debug("executions are recorded without an owner: %s", error)
                return None
            self._names.add(self._own.path.name)
        return self._own.path.name

    def dead(self) -> Iterator[RunFolder]:
        """Locks and returns the folders of killed products, which are named after their owners.

        Raises:
            NotPrivate, OSError: the parent folder cannot be used.
        """
        return abandoned(self._parent())

    def gone(self, owners: Iterable[str]) -> list[str]:
        """The owners that have no folder. Read `owners` from the journal before calling this: a product makes its
        folder before it records anything.

        Raises:
            NotPrivate, OSError: the parent folder cannot be used.
        """
        there = {path.name for path in self._parent().iterdir()} | self._names
        return [owner for owner in owners if owner not in there]

    def _parent(self) -> Path:
        return private_subfolder(private_folder(self._state_folder, is_readable=True), "running")

    def close(self) -> None:
        """Remove the folder; this product runs nothing any more."""
        if self._own is not None:
            self._own.remove()
            self._own = None
