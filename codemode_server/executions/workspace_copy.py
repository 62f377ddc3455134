"""A copy of a workspace, which a dry run sees in its place and which is thrown away with all that it wrote.

The files are hostile: links are copied as links, and what is neither file, folder nor link is left out. Names are read
folder by folder, by descriptors (see `untrusted_files`), while other programs of the same principal may write.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server import temporary
from codemode_server.domain.errors import MetaToolError
from codemode_server.untrusted_files import Entry, walk

_MAX_ENTRIES = 50_000
_PIECE_BYTES = 2**20
_ROOM_BYTES = 2**20
"""Space beyond the quota, because other programs write meanwhile."""


@asynccontextmanager
async def copied(folder: Path, quota_bytes: int) -> AsyncGenerator[Path]:
    """A copy, removed afterwards.

    Raises:
        MetaToolError: the workspace can't be copied, or takes more than its quota.
    """
    copy: Path | None = None
    try:
        copy = await anyio.to_thread.run_sync(_copy, folder, quota_bytes)
        yield copy
    finally:
        if copy is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(temporary.remove, copy)


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
