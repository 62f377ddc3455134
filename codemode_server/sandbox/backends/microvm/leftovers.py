"""The names and folders of one run of the product, and of runs that crashed: those are cleaned up, nobody else's.

Each run has a folder under MSB_HOME (see `processes.run_folder`), and its machines are named after it: with the folder
of a dead process its machines are leftovers.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.private_files import NotPrivate, private_folder
from codemode_server.processes.run_folder import RunFolder, abandoned
from codemode_server.sandbox.backends.microvm.machine import destroy

_log = logging.getLogger(__name__)
_PREFIX = "codemode-"
_DIGITS = 8
"""Of a run's name; few, since a socket's path in its folder has to be short."""


class Run:
    """This run's own folder and names."""

    def __init__(self, home: Path) -> None:
        self._runs = home / "codemode"
        self._numbers = itertools.count(1)
        self._own: RunFolder | None = None

    def open(self) -> None:
        """Make the folder and lock it.

        Raises:
            SandboxUnavailable: it can't be made.
        """
        try:
            private_folder(self._runs, "MSB_HOME")
            self._own = RunFolder.make(self._runs, digits=_DIGITS)
        except OSError as error:
            raise SandboxUnavailable(
                f"the folder {self._runs} can't be used for microVMs: {error.strerror}; "
                "make it writable, or set MSB_HOME to a folder that is"
            ) from error
        except NotPrivate as error:
            raise SandboxUnavailable(f"the folder for microVMs {error}") from error

    @property
    def folder(self) -> Path:
        """The folder; it may be gone once this is closed."""
        assert self._own is not None, "it was opened"  # noqa: S101 - else a fault of ours
        return self._own.path

    def next_name(self) -> str:
        """A name that no machine ever had: one whose owner died can't be used again."""
        return f"{_PREFIX}{self.folder.name}-{next(self._numbers):04d}"

    def close(self, *, is_clean: bool) -> None:
        """Give the folder up; unless all machines are gone, it stays to tell the next run of them."""
        if self._own is not None:
            if is_clean:
                self._own.remove()
            else:
                self._own.release()

    async def clean_leftovers(self) -> int:
        """Kill and strike off the machines of runs that are dead; gives how many there were."""
        from microsandbox import Sandbox
        from microsandbox.errors import MicrosandboxError

        dead = await anyio.to_thread.run_sync(lambda: list(abandoned(self._runs, digits=_DIGITS)))
        count, are_gone = 0, False
        try:
            if dead:
                names = [box.name for box in (await Sandbox.list()).sandboxes]
                for name in names:
                    if any(name.startswith(f"{_PREFIX}{run.path.name}-") for run in dead):
                        count += await destroy(name, None)
            are_gone = True
        except MicrosandboxError as error:
            _log.warning("microVMs that an earlier run left could not be cleaned up: %s", error)
        finally:
            for run in dead:  # else the folder stays, to tell the next run of its machines
                run.remove() if are_gone else run.release()
        return count
