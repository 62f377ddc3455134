"""Watches the configuration file, the `.env` beside it and the trust record, by time, size and inode. A change counts
once it has been stable for an interval: while an editor writes, the file may briefly be empty, which is valid."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from codemode_server.config.loading import LoadedSettings, load_place, stamp_of_place
from codemode_server.config.places import ConfigFile, Stamp
from codemode_server.domain.errors import SettingsError

_log = logging.getLogger(__name__)


async def changes(
    place: ConfigFile,
    interval_s: float = 0.5,
    *,
    since: LoadedSettings | SettingsError | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[LoadedSettings | SettingsError]:
    """The settings each time they have changed; an error, once, where the file can't be used as it now is. `since` is
    what the last reading gave: a change between it and here is then not missed. An edit that breaks the entry of a
    server is an error too, so that a typo stops nothing that works."""
    last = since
    in_force = since if isinstance(since, LoadedSettings) else None
    seen = in_force.stamp if in_force is not None else () if since is not None else stamp_of_place(place)
    pending: Stamp | None = None
    while True:
        await anyio.sleep(interval_s)
        now = await anyio.to_thread.run_sync(stamp_of_place, place)
        if now == seen:
            pending = None
        elif now != pending:
            pending = now
        else:
            seen, pending = now, None
            read = await anyio.to_thread.run_sync(partial(_read, place, environ, in_force))
            if not _is_same(read, last):
                last = read
                in_force = read if isinstance(read, LoadedSettings) else in_force
                yield read


def _read(
    place: ConfigFile, environ: Mapping[str, str] | None, in_force: LoadedSettings | None
) -> LoadedSettings | SettingsError:
    try:
        read = load_place(place, environ)
    except SettingsError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end the session, whose settings are in force
        _log.exception("the configuration could not be read")
        return SettingsError(f"{place.path}: can't be used: {type(error).__name__}; the log has more")
    if in_force is None:
        return read
    broken = [
        line for name, lines in read.invalid_servers.items() if name not in in_force.invalid_servers for line in lines
    ]
    return SettingsError("\n".join(broken)) if broken else replace(read, unused_file=in_force.unused_file)


def _is_same(one: LoadedSettings | SettingsError, other: LoadedSettings | SettingsError | None) -> bool:
    if isinstance(one, SettingsError):
        return isinstance(other, SettingsError) and str(one) == str(other)
    return one == other
