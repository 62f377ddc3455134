"""Dry runs of programs: each sees a copy of its workspace, and its plan is made of the calls that it did not send.

A copy has links as links, and neither sockets nor devices: everything in a workspace is hostile.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.workspace import Workspace
from codemode_server.features.dry_run.plan_report import plan_report, without_placeholder_numbers
from codemode_server.support import temporary
from codemode_server.support.off_loop import run_large
from codemode_server.support.untrusted_files import Entry, walk

if TYPE_CHECKING:
    from codemode_server.storage.journal import Journal

_MAX_ENTRIES = 50_000
_PIECE_BYTES = 2**20
_ROOM_BYTES = 2**20
"""Space beyond the quota, because other programs write meanwhile."""


@dataclass(frozen=True, slots=True)
class DryRuns(ExecutionLayer):
    journal: Journal
    workspaces: Callable[[Principal], Workspace]

    def is_for(self, execution: Execution) -> bool:
        return execution.is_dry_run

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        """Raises `MetaToolError` if the workspace can't be copied, or takes more than its quota; `JournalUnavailable`
        if the calls can't be read."""
        principal, quota_bytes = execution.caller.principal, execution.limits.workspace_mb * 2**20
        folder = self.workspaces(principal).make()
        copy = execution.workspace = await anyio.to_thread.run_sync(_copy, folder, quota_bytes)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(temporary.remove, copy)
        execution.outcome = await run_large(without_placeholder_numbers, execution.outcome)
        calls = await self.journal.calls(principal, execution.execution_id)
        execution.plan = await run_large(plan_report, calls, execution.code, execution.caller.redactor)


def _copy(folder: Path, quota_bytes: int) -> Path:
    copy: Path | None = None
    try:
        copy = temporary.make("dry-run")
        _fill(copy, folder, quota_bytes)
    except (OSError, MetaToolError) as error:
        if copy is not None:
            temporary.remove(copy)
        if isinstance(error, MetaToolError):
            raise
        raise MetaToolError(f"no dry run: /workspace can't be copied: {error.strerror or error}") from error
    return copy


def _fill(copy: Path, folder: Path, quota_bytes: int) -> None:
    used, count = 0, 0
    links: dict[Path, str] = {}
    for entry in walk(folder):
        if entry.is_emptied:
            continue
        used, count = used + entry.size, count + 1
        if used > quota_bytes + _ROOM_BYTES or count > _MAX_ENTRIES:
            raise MetaToolError(
                "no dry run: a copy of /workspace would be too large (limits.workspace_mb); remove files there first"
            )
        target, (name, parent) = copy.joinpath(*entry.path.split("/")), entry.place
        with suppress(FileNotFoundError, FileExistsError):  # removed or renamed meanwhile
            if entry.is_folder:
                target.mkdir(0o700)
            elif stat.S_ISLNK(entry.status.st_mode):
                links[target] = os.readlink(name, dir_fd=parent)
            elif stat.S_ISREG(entry.status.st_mode):
                _copy_file(entry, target)
    for target, points_to in links.items():  # last, so that nothing is written through one
        with suppress(FileExistsError):
            target.symlink_to(points_to)


def _copy_file(entry: Entry, target: Path) -> None:
    (name, parent), flags = entry.place, os.O_RDONLY
    if sys.platform != "win32":
        flags |= os.O_NONBLOCK | os.O_NOFOLLOW
    left = entry.status.st_size  # it may grow meanwhile
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as source, target.open("xb") as file:
        while stat.S_ISREG(os.fstat(source.fileno()).st_mode) and (data := source.read(min(left, _PIECE_BYTES))):
            file.write(data)
            left -= len(data)
    os.utime(target, ns=(entry.status.st_atime_ns, entry.status.st_mtime_ns))
    target.chmod(stat.S_IMODE(entry.status.st_mode) & 0o700 | 0o600)
