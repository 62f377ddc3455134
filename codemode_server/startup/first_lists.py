"""The lists of tools and prompts that the last run wrote for the next start, which answers with them before anything of
the configuration, the database and the catalog is loaded.

One file for each configuration file, in the data folder of the user. It counts for the configuration from which it was
made, all of which was in force, by the digests of its files and the variables in them, and for this version. What is in
it was for hosts: masked, and with protected data replaced. A configuration in the current folder has none, since it
needs the person's trust.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server import __version__
from codemode_server.config import places
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE
from codemode_server.mcp_server.opening import FirstLists
from codemode_server.support.private_files import data_folder, open_private, private_folder, replace_private

if TYPE_CHECKING:
    from codemode_server.app import App
    from codemode_server.config import LoadedSettings
    from codemode_server.startup.upstream_catalog import UpstreamCatalog

logger = logging.getLogger(__name__)

_MAX_BYTES = 4 * 2**20


def stored(config: Path | None) -> FirstLists | None:
    """The lists for the configuration at a path, or wherever it is; None if there are none."""
    try:
        place = places.asked_for(config, os.environ, Path.cwd())
        if place is None and places.in_folder(Path.cwd()) is None:
            place = places.ConfigFile(places.user_file())
        if place is None:
            return None
        digests: dict[str, str] = {}
        for path in (place.path, place.path.with_name(".env")):
            if path.exists():
                places.read_source(path, digests)
        with os.fdopen(open_private(_file(place.path), os.O_RDONLY), "rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
        is_for_this = found["made_from"] == _key(digests, found["variables"])
        return FirstLists(found["tools"], found["prompts"]) if is_for_this else None
    except (CodemodeError, OSError, ValueError, KeyError, TypeError):
        return None


def forget(loaded: LoadedSettings) -> None:
    """Delete the lists, since what the person has done changes them."""
    if loaded.place is not None:
        with suppress(OSError):
            _file(loaded.place.path).unlink(missing_ok=True)


def current(tools: UpstreamCatalog) -> FirstLists:
    """The lists as they are now."""
    prompts = tools.prompts
    return FirstLists(tools.offered(), [] if prompts is None else prompts.definitions())


async def store(app: App) -> None:
    """Write the current lists."""
    await app.tools.take_acceptances()
    if app.takeover.whole is not None:
        await anyio.to_thread.run_sync(write, app.takeover.whole, current(app.tools))


def write(loaded: LoadedSettings, lists: FirstLists) -> None:
    """Write the lists of a configuration that is in force."""
    if loaded.place is None or loaded.place.is_in_current_folder:
        return
    variables = sorted(loaded.expanded_from)
    made_from = {"made_from": _key(loaded.digests, variables), "variables": variables}
    content, file = json.dumps(made_from | asdict(lists)).encode(), _file(loaded.place.path)
    try:
        private_folder(file.parent)
        if len(content) < _MAX_BYTES and (not file.exists() or file.read_bytes() != content):
            replace_private(file, content)
    except (CodemodeError, OSError) as error:
        logger.info("the lists are not stored for the next start: %s", error)


def _file(path: Path) -> Path:
    return data_folder() / "first-lists" / f"{places.digest(str(path).encode())[:16]}.json"


def _key(digests: Mapping[str, str], variables: list[str]) -> str:
    values = [os.environ.get(it) for it in (PRINCIPAL_VARIABLE, *variables)]
    about = [__version__, values, sorted(it for it in digests.items() if it[1])]
    return places.digest(json.dumps(about).encode())
