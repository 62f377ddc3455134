"""Limits the bytes that programs write: no sandbox does that, so the host measures their folders while they run.

A program is ended when one of its folders exceeds the quota. Once no process of the program runs, what it added to the
workspace beyond the quota is removed, the newest first, however it ended; so the next program begins within the quota.
In a workspace that is above the quota already, a program can read and delete, but not add.

Programs that run at the same time share the workspace of their principal, and the host cannot know which of them wrote
a file: above the quota, all of them are ended. Several products do not know of each other's programs, but each measures
the same folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.domain.errors import LimitExceeded
from codemode_server.sandbox.added_files import Contents, Removed, contents, remove_added
from codemode_server.sandbox.channel import Channel
from codemode_server.sandbox.contract import Ending, Outcome, Program, ProgramError
from codemode_server.support.untrusted_files import TooManyFiles, used_bytes

SETTING = "limits.workspace_mb"
_INTERVAL_SECONDS = 0.1
_MAX_ENTRIES = 250_000
"""Maximum files and folders of a workspace; measuring more would delay the start of the program."""


class Quotas:
    def __init__(self) -> None:
        self.running: set[Quota] = set()
        self.removing = threading.Lock()
        """Held while files are removed: two programs that measure the same surplus would remove it twice."""

    @asynccontextmanager
    async def enforced(self, program: Program, scratch: Path | None = None) -> AsyncIterator[Quota]:
        """The quota of a program. On exit the program must have ended; then the workspace is brought within the quota.

        `scratch` is its /tmp, if that is a folder of the host; the caller removes it.

        Raises `LimitExceeded` if the workspace cannot be measured."""
        quota = Quota(program, scratch, self)
        try:
            await anyio.to_thread.run_sync(quota.measure_start)
        except TooManyFiles:
            raise LimitExceeded(
                f"/workspace holds more than {_MAX_ENTRIES:,} files and folders, too many to measure; "
                "the user can remove some with `codemode-server workspace clean`",
                setting=SETTING,
            ) from None
        self.running.add(quota)
        try:
            yield quota
        finally:
            with anyio.CancelScope(shield=True):
                if await anyio.to_thread.run_sync(quota.is_exceeded_in_workspace):
                    await anyio.to_thread.run_sync(quota.settle)
            self.running.remove(quota)


class Quota:
    def __init__(self, program: Program, scratch: Path | None, quotas: Quotas) -> None:
        self._program = program
        self._scratch = scratch
        self._quotas = quotas
        self._max_bytes = program.limits.workspace_mb * 2**20
        self._before = Contents()
        self._is_over = False
        self._is_tmp_over = False
        """True if its /tmp, and not the workspace, is above the quota."""
        self._removed = Removed()

    def measure_start(self) -> None:
        if self._program.workspace is not None:
            self._before = contents(self._program.workspace, _MAX_ENTRIES)

    async def run(self, channel: Channel, holder: int | None) -> Outcome:
        """Run the program, and end it when one of its folders exceeds the quota.

        `holder` is the process on the host that has the program's files open.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, lambda: channel.exceed(self._message, SETTING), holder)
            outcome = await channel.run()
            tasks.cancel_scope.cancel()
        if not self._is_over and ended_itself(outcome) and self._scratch is not None:
            self._is_over = await anyio.to_thread.run_sync(self._has_passed_in_tmp, holder)
        return outcome

    async def watch_end(self, is_at_end: Callable[[], Awaitable[bool]], holder: int | None) -> bool:
        """The result of `is_at_end`, or False once too much was written: a program may write after its `done`."""
        is_ended = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, tasks.cancel_scope.cancel, holder)
            is_ended = await is_at_end()
            tasks.cancel_scope.cancel()
        return is_ended

    def note_over(self) -> None:
        """The sandbox reports too much in folders that the host cannot measure: the program is ended."""
        self._is_tmp_over = self._is_tmp_over or not self._is_over
        self._is_over = True

    def is_exceeded_in_workspace(self) -> bool:
        workspace = self._program.workspace
        return workspace is not None and used_bytes(workspace, self._allowed) > self._allowed

    def settle(self) -> None:
        """Remove what was added to the workspace beyond the quota. Call it when no process of the program runs."""
        workspace = self._program.workspace
        if workspace is None:
            return
        with self._quotas.removing:
            if self.is_exceeded_in_workspace():
                self._end_others()
                self._is_over = True
                remove_added(workspace, self._before, self._allowed, self._removed)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome with remarks on the quota and removed files. Call it after `enforced`."""
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
        return max(self._max_bytes, self._before.used)

    @property
    def _message(self) -> str:
        most = f"{self._program.limits.workspace_mb} MiB"
        if self._is_tmp_over:
            return f"the program's files in /tmp take more than {most}"
        if self._before.used > self._max_bytes:
            held = f"{self._before.used / 2**20:,.0f} MiB"
            return f"/workspace held {held} already, more than {most}: files can be deleted, but nothing added"
        return f"the program's files take more than {most}"

    @property
    def _remark(self) -> str:
        return f"; of what was added to /workspace, {self._removed.text}" if self._removed else ""

    async def _watch(self, end: Callable[[], None], holder: int | None) -> None:
        """Call `end` when the program has written too much."""
        pause = _INTERVAL_SECONDS
        while True:
            await anyio.sleep(pause)
            began = time.monotonic()
            if self._is_over or await anyio.to_thread.run_sync(self._has_passed, holder):
                self._is_over = True
                end()
                return
            pause = max(_INTERVAL_SECONDS, time.monotonic() - began)

    def _has_passed(self, holder: int | None) -> bool:
        if self._has_passed_in_tmp(holder):
            return True
        workspace = self._program.workspace
        if workspace is None or not self._is_passed(workspace, self._allowed, holder):
            return False
        self._end_others()
        return True

    def _has_passed_in_tmp(self, holder: int | None) -> bool:
        if self._scratch is not None and self._is_passed(self._scratch, self._max_bytes, holder):
            self._is_tmp_over = True
        return self._is_tmp_over

    def _end_others(self) -> None:
        """End the other programs that use the workspace: any of them may have filled it."""
        workspace = self._program.workspace
        others = [it for it in list(self._quotas.running) if it is not self and it._program.workspace == workspace]
        for other in others:
            other._is_over = True
            other._removed = self._removed

    @staticmethod
    def _is_passed(folder: Path, allowed: int, holder: int | None) -> bool:
        # Removed files first: one that is removed between the two would be counted in both the other way round.
        return removed_bytes(holder, folder) + used_bytes(folder, allowed) > allowed


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
