"""Names and folders of one run of the product, and the cleanup after runs that crashed.

Each run has a folder under MSB_HOME (see `processes.run_folder`), and its machines are named after it. If the process
of a folder is dead, its machines are leftovers.
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
"""Length of a run's name; short, since the paths of sockets in its folder must be short."""


class Run:
    """This run's own folder and names."""

    def __init__(self, home: Path) -> None:
        self._runs = home / "codemode"
        self._numbers = itertools.count(1)
        self._own: RunFolder | None = None

    def open(self) -> None:
        """Creates the folder and locks it.

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
        """A name that was never used: the runtime rejects the name of a machine whose owner died."""
        return f"{_PREFIX}{self.folder.name}-{next(self._numbers):04d}"

    def close(self, *, is_clean: bool) -> None:
        """Releases the folder; it stays for the next run's cleanup unless all machines are gone."""
        if self._own is not None:
            if is_clean:
                self._own.remove()
            else:
                self._own.release()

    async def clean_leftovers(self) -> int:
        """Kills and unregisters the machines of dead runs; returns their number."""
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
            for run in dead:  # otherwise the folder stays for the next cleanup
                run.remove() if are_gone else run.release()
        return count
