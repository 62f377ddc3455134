"""Limits the bytes that programs write: no sandbox does that, so the host measures their folders while they run.

A program is ended when one of its folders exceeds the quota. Once no process of the program runs, what it added to the
workspace beyond the quota is removed, the newest first, however it ended; so the next program begins within the quota.
In a workspace that is above the quota already, a program can read and delete, but not add.

Programs that run at the same time share the workspace of their principal, and the host cannot know which of them wrote
a file: above the quota, all of them are ended. Several products do not know of each other's programs, but each measures
the same folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from codemode_server.domain.errors import LimitExceeded
from codemode_server.sandbox.added_files import Contents, Removed, contents, remove_added
from codemode_server.sandbox.contract import Ending, Outcome, Program, ProgramError
from codemode_server.support.untrusted_files import EVERYTHING, TooManyFiles, used_bytes

if TYPE_CHECKING:
    from codemode_server.sandbox.channel import Channel

T = TypeVar("T")
SETTING = "limits.workspace_mb"
_INTERVAL_SECONDS = 0.1
_SMALL = 64
"""Files and folders that are measured at once; a thread would take longer."""
_MAX_ENTRIES = 250_000
"""Maximum files and folders of a workspace; measuring more would delay the start of the program."""


class Quotas:
    def __init__(self) -> None:
        self.running: set[Quota] = set()
        self.removing = threading.Lock()
        """Held while files are removed: two programs that measure the same surplus would remove it twice."""

    async def begin(self, program: Program) -> Quota:
        """The quota of a program that begins; `end` is called for it. Raises `LimitExceeded` if the workspace cannot be
        measured."""
        quota = Quota(program, self)
        try:
            if program.workspace is not None:
                quota.before = await _measured(contents, program.workspace, _MAX_ENTRIES)
        except TooManyFiles:
            raise LimitExceeded(
                f"/workspace holds more than {_MAX_ENTRIES:,} files and folders, too many to measure; "
                "the user can remove some with `codemode-server workspace clean`",
                setting=SETTING,
            ) from None
        self.running.add(quota)
        return quota

    async def end(self, quota: Quota) -> None:
        """Bring the workspace within the quota; nothing of the program runs any more. Not cancelled."""
        with anyio.CancelScope(shield=True):
            await quota.settle()
        self.running.remove(quota)


class Quota:
    def __init__(self, program: Program, quotas: Quotas) -> None:
        self._program = program
        self._quotas = quotas
        self._max_bytes = program.limits.workspace_mb * 2**20
        self.before = Contents()
        self.scratch: Path | None = None
        """The program's /tmp, if that is a folder of the host; the backend sets and removes it."""
        self._is_over = False
        self._removed = Removed()

    def watch(self, tasks: TaskGroup, channel: Channel, holder: int | None) -> asyncio.TimerHandle:
        """End the program once one of its folders exceeds the quota; most have ended before the first look. `holder` is
        the process on the host that has the program's files open."""
        return asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, tasks.start_soon, self._watch, channel, holder)

    async def is_exceeded(self, holder: int | None) -> bool:
        self._is_over = self._is_over or await anyio.to_thread.run_sync(self._has_passed, holder)
        return self._is_over

    def note_over(self) -> None:
        """The sandbox reports too much in folders that the host cannot measure: the program is ended."""
        self._is_over = True

    async def settle(self) -> None:
        """Remove what was added to the workspace beyond the quota."""
        workspace = self._program.workspace
        if self.scratch is not None and not is_empty(self.scratch) and await _is_larger(self.scratch, self._max_bytes):
            self.note_over()
        if workspace is not None and await _is_larger(workspace, self._allowed):
            await anyio.to_thread.run_sync(self._remove_added, workspace)

    def _remove_added(self, workspace: Path) -> None:
        with self._quotas.removing:
            if used_bytes(workspace) > self._allowed:
                self._end_others()
                self._is_over = True
                remove_added(workspace, self.before, self._allowed, self._removed)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome with remarks on the quota and removed files. Call it after `Quotas.end`."""
        if ended_itself(outcome) and (self._is_over or _met_file_limit(outcome)):
            line = outcome.error.line if outcome.error else None
            error = ProgramError("LimitExceeded", self._message + self._remark, line=line, setting=SETTING)
            return replace(outcome, ending=Ending.LIMITED, value=None, value_form="none", error=error)
        if outcome.error is not None:
            error = replace(outcome.error, message=outcome.error.message + self._remark)
            return replace(outcome, error=error)
        return outcome

    @property
    def _allowed(self) -> int:
        return max(self._max_bytes, self.before.used)

    @property
    def _message(self) -> str:
        most = f"{self._program.limits.workspace_mb} MiB"
        if self.before.used > self._max_bytes:
            held = f"{self.before.used / 2**20:,.0f} MiB"
            return f"/workspace held {held} already, more than {most}: files can be deleted, but nothing added"
        return f"the program's files take more than {most}"

    @property
    def _remark(self) -> str:
        return f"; of what was added to /workspace, {self._removed.text}" if self._removed.count else ""

    async def _watch(self, channel: Channel, holder: int | None) -> None:
        while True:
            began = time.monotonic()
            if await self.is_exceeded(holder):
                channel.exceed(self._message, SETTING)
                return
            await anyio.sleep(max(_INTERVAL_SECONDS, time.monotonic() - began))

    def _has_passed(self, holder: int | None) -> bool:
        if self.scratch is not None and _is_passed(self.scratch, self._max_bytes, holder):
            return True
        workspace = self._program.workspace
        if workspace is None or not _is_passed(workspace, self._allowed, holder):
            return False
        self._end_others()
        return True

    def _end_others(self) -> None:
        """End the other programs that use the workspace: any of them may have filled it."""
        workspace = self._program.workspace
        others = [it for it in list(self._quotas.running) if it is not self and it._program.workspace == workspace]
        for other in others:
            other._is_over = True
            other._removed = self._removed


async def _measured(measure: Callable[[Path, int], T], folder: Path, most_entries: int = EVERYTHING) -> T:
    """Measure a folder: here if it is small, in a thread otherwise."""
    try:
        return measure(folder, _SMALL)
    except TooManyFiles:
        return await anyio.to_thread.run_sync(measure, folder, most_entries)


def is_empty(folder: Path) -> bool:
    try:
        return not os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return False


async def _is_larger(folder: Path, size: int) -> bool:
    return await _measured(partial(used_bytes, enough=size), folder) > size


def _is_passed(folder: Path, allowed: int, holder: int | None) -> bool:
    # Removed files first: one that is removed between the two would be counted in both the other way round.
    return removed_bytes(holder, folder) + used_bytes(folder, enough=allowed) > allowed


def ended_itself(outcome: Outcome) -> bool:
    return outcome.ending in (Ending.RETURNED, Ending.RAISED)


def _met_file_limit(outcome: Outcome) -> bool:
    """True if the program failed because one file would have grown beyond the quota."""
    return outcome.error is not None and outcome.error.type == "OSError" and "File too large" in outcome.error.message


def removed_bytes(holder: int | None, folder: Path) -> int:
    """Bytes of files of a folder that were removed and are still open; 0 on systems other than Linux."""
    if sys.platform == "win32" or holder is None:
        return 0
    used, beginning = 0, os.path.realpath(os.fsencode(folder)) + b"/"
    files = f"/proc/{holder}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(files):  # noqa: PTH208 - names in /proc
            with contextlib.suppress(OSError):
                target = os.readlink(os.fsencode(f"{files}/{name}"))  # noqa: PTH115 - bytes, whatever they are
                if target.endswith(b" (deleted)") and target.startswith(beginning):
                    used += os.stat(f"{files}/{name}").st_blocks * 512  # noqa: PTH116 - as above
    return used
