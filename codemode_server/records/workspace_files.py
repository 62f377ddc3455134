"""What is in the workspace of the local principal, for the command `workspace` and its page.

Its names and links are a program's. So a file is found by walking the folder, which follows no link, and never by a
path that somebody gave.
"""

from __future__ import annotations

import heapq
import os
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

import anyio.to_thread

from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.executions.workspace import FOLDERS, Workspace
from codemode_server.records.executions import Records
from codemode_server.records.reports import Column, Download, Report, ReportPage, Row, key_of
from codemode_server.startup.stores import state_folder
from codemode_server.support.text import counted, escaped
from codemode_server.support.untrusted_files import Entry, counted_bytes, walk

MAX_PRINTED = 20
_MAX_SHOWN = 500
_DAY_SECONDS = 86_400
_READ_BYTES = 1 << 20
_OPENED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(slots=True)
class WorkspaceSummary:
    """How many files there are, how large they are together, and the largest."""

    files: int = 0
    folders: int = 0
    size: int = 0
    _largest: list[tuple[int, int, Entry]] = field(default_factory=list)
    """The largest files: bytes, a number that orders files of the same size, and the file."""

    def add(self, entry: Entry, size: int) -> None:
        self.size += size
        self.folders += entry.is_folder
        self.files += not entry.is_folder

    def keep(self, entry: Entry, size: int, limit: int) -> None:
        push = heapq.heappush if len(self._largest) < limit else heapq.heappushpop
        push(self._largest, (size, self.files, entry))

    @property
    def largest(self) -> list[tuple[Entry, int]]:
        """The largest files with their bytes, the largest first."""
        return [(entry, size) for size, _, entry in sorted(self._largest, key=lambda it: (-it[0], it[1]))]

    @property
    def text(self) -> str:
        """`3 files and 1 folder, 12.0 MiB`."""
        folders = f" and {counted(self.folders, 'folder')}" if self.folders else ""
        return f"{counted(self.files, 'file')}{folders}, {mib(self.size)} MiB"


def folder(loaded: LoadedSettings) -> Path | None:
    """Where the workspace is; None if no program has run yet."""
    workspace = Workspace(state_folder(loaded.settings), local_principal(loaded.settings))
    if not workspace.path.is_dir():
        return None
    try:
        return workspace.make()
    except OSError as error:
        raise CodemodeError(f"the workspace {escaped(str(workspace.path))} can't be used: {error.strerror}") from error


def examine(workspace: Path, older_than_days: float = 0, *, limit: int = MAX_PRINTED) -> WorkspaceSummary:
    """Count the files that were not changed for so many days, and find the largest."""
    found = WorkspaceSummary()
    names: Counter[int] = Counter()
    for entry in old_entries(workspace, older_than_days):
        if entry.is_emptied:
            continue
        size = counted_bytes(entry, names)
        found.add(entry, size)
        if not entry.is_folder:
            found.keep(entry, size, limit)
    return found


def about(loaded: LoadedSettings, workspace: Path, found: WorkspaceSummary) -> list[str]:
    """Where the files are and how much they may take; names in it are escaped."""
    return [
        f"{escaped(str(workspace))}, which programs see as /workspace",
        f"{found.text}; programs may have {loaded.settings.limits.workspace_mb:,} MiB (limits.workspace_mb)",
    ]


def old_entries(workspace: Path, days: float) -> Iterator[Entry]:
    """By ctime, which no program can set; a folder's as it was before anything in it was removed."""
    until = time.time() - days * _DAY_SECONDS
    for entry in walk(workspace):
        is_ours = entry.above is None and entry.name in FOLDERS and entry.is_folder  # every workspace has them
        if not is_ours and (not days or entry.status.st_ctime < until):
            yield entry


def mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def _key(entry: Entry) -> str:
    """Names a file in an address, however long its path is."""
    return key_of(f"{entry.status.st_ino}/{entry.name}")


async def _read(records: Records, _: str) -> Report:
    def rows() -> Report:
        workspace = folder(records.loaded)
        if workspace is None:
            return Report(())
        found = examine(workspace, limit=_MAX_SHOWN)
        largest = [
            Row(
                (it.path, it.status.st_size, it.status.st_ctime), f"workspace/{_key(it)}" if _is_file(it.status) else ""
            )
            for it, _ in found.largest
        ]
        return Report(largest, about(records.loaded, workspace, found), found.files - len(largest))

    return await anyio.to_thread.run_sync(rows)


async def _download(records: Records, key: str) -> Download | None:
    def opened() -> tuple[str, BufferedReader] | None:
        workspace = folder(records.loaded)
        for entry in walk(workspace) if workspace is not None else ():
            if _is_file(entry.status) and _key(entry) == key:
                return entry.name, _opened(entry)
        return None

    found = await anyio.to_thread.run_sync(opened)
    return None if found is None else Download(found[0], _content(found[1]))


def _opened(entry: Entry) -> BufferedReader:
    """Raises `CodemodeError` if something else is in its place by now."""
    try:
        name, parent = entry.place
        descriptor = os.open(name, _OPENED, dir_fd=parent)
    except OSError as error:
        raise CodemodeError(f"the file can't be read: {error.strerror}") from error
    file = os.fdopen(descriptor, "rb")
    status = os.fstat(descriptor)
    if not _is_file(status) or status.st_ino != entry.status.st_ino:
        file.close()
        raise CodemodeError("the file was replaced meanwhile; look again")
    return file


async def _content(file: BufferedReader) -> AsyncIterator[bytes]:
    """What it has now: a program may go on writing for ever."""
    with file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (part := await anyio.to_thread.run_sync(file.read, min(left, _READ_BYTES))):
            left -= len(part)
            yield part


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


WORKSPACE = ReportPage(
    name="workspace",
    title="Workspace",
    columns=(Column("File"), Column("Size", "size"), Column("Changed", "moment")),
    read=_read,
    item=_download,
    is_downloaded=True,
    empty="No program has left a file here. Programs write to /workspace what later ones are to find.",
)
