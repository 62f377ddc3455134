"""Starts and feeds the reaper: one small process that ends our child processes if we are killed before we can do it.

A host may SIGKILL us, and a child that ignores the end of its stdin would then live for ever in its own session.
However we end, the kernel closes the reaper's stdin, which is its signal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import anyio

from codemode_server.processes.child_process import start_blocking

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("orphan_reaper_main.py")
_LEAVE_S = 1.0
"""How long we wait for the reaper to exit when no group is left."""


class Reaper:
    """Watches process groups. Its own process is started for the first group, if not before; it watches all of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: set[int] = set()

    @property
    def pid(self) -> int | None:
        """The reaper's own process, or None before the first `watch`."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the reaper's process before there is a group, so that the first one is watched at once."""
        if self._process is None and sys.platform != "win32":
            self._start()

    def watch(self, pgid: int) -> None:
        """End this group, whose leader was just started, if the product dies."""
        if sys.platform == "win32":
            return  # the group is a job object, which ends with the product
        self._watched.add(pgid)
        if not self._send(f"+{pgid}\n"):
            self._start()

    def forget(self, pgid: int) -> None:
        """Stop watching a group, since it has ended."""
        self._watched.discard(pgid)
        self._send(f"-{pgid}\n")

    async def aclose(self) -> None:
        """Close the reaper's stdin, upon which it ends the groups that are still watched, and itself. Waits for it only
        if no group is watched."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LEAVE_S if not self._watched else 0):
                while process.poll() is None:  # noqa: ASYNC110 - a process sends no event
                    await anyio.sleep(0.005)
        finally:
            if process.poll() is None:
                process.returncode = 0  # it outlives us on purpose, to end what is left; `Popen` would warn

    def _send(self, line: str) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        try:
            os.write(self._process.stdin.fileno(), line.encode())
        except OSError:  # it was killed
            return False
        return True

    def stop(self) -> None:
        """End the reaper's process, and none of the groups."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None

    def _start(self) -> None:
        self.stop()
        try:
            command = [sys.executable, "-I", "-S", "-E", str(_PROGRAM)]
            self._process = start_blocking(command, env={}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            logger.warning("no reaper: child processes may outlive codemode-server if it is killed", exc_info=True)
            return
        self._send("".join(f"+{pgid}\n" for pgid in sorted(self._watched)))
