"""Notices that the configuration file, or the `.env` beside it, has changed, and reads it again.

Looks at time, size and inode once per interval, so it sees files that editors replace as well as those they write
into, on any file system. A change counts once it has looked the same for an interval: while an editor writes, the
file may be empty for a moment, and an empty file is a valid one without servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.config.loading import LoadedSettings, Stamp, load, stamp_of
from codemode_server.errors import SettingsError


async def changes(
    path: Path,
    interval_s: float = 1.0,
    *,
    since: LoadedSettings | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[LoadedSettings | SettingsError]:
    """The settings each time they have changed; an error, once, where the file can't be used as it now is.

    After an error go on with the settings you have. `since` are those: a change between `load` and here is then not
    missed, and a file saved without a change of meaning is not told. Ends never; close it or cancel its task.
    """
    seen: Stamp = since.stamp if since is not None and since.stamp else stamp_of(path)
    last: LoadedSettings | SettingsError | None = since
    pending: Stamp | None = None
    while True:
        await anyio.sleep(interval_s)
        now = stamp_of(path)
        if now == seen:
            pending = None
        elif now != pending:
            pending = now
        else:
            seen, pending = now, None
            read = await anyio.to_thread.run_sync(partial(_read, path, environ))
            if not _is_same(read, last):
                last = read
                yield read


def _read(path: Path, environ: Mapping[str, str] | None) -> LoadedSettings | SettingsError:
    try:
        return load(path, environ=environ)
    except SettingsError as error:
        return error


def _is_same(one: LoadedSettings | SettingsError, other: LoadedSettings | SettingsError | None) -> bool:
    if isinstance(one, SettingsError):
        return isinstance(other, SettingsError) and str(one) == str(other)
    return one == other
