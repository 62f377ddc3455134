"""The commands `select`, which prints a program to start from, and `sync`, which writes the tree of stubs."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import anyio

from codemode_server.catalog.sync import sync
from codemode_server.cli.arguments import add_wait
from codemode_server.cli.product import COMMAND_SESSION, inspected
from codemode_server.cli.status import is_well
from codemode_server.cli.terminal import configuration, show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import Caller
from codemode_server.domain.errors import CodemodeError
from codemode_server.search.results import SearchResults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="what a program should do, in English")
    parser.add_argument("--server", metavar="SERVER", help="only tools of this server")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_wait(parser)


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed)
    found = anyio.run(partial(_found, loaded, parsed.task, parsed.server, parsed.wait))
    show(json.dumps(found.as_json(), indent=2) if parsed.json else found.text)
    return 0 if found.tools else 1


async def _found(loaded: LoadedSettings, task: str, server: str | None, wait_seconds: float) -> SearchResults:
    async with inspected(loaded, wait_seconds) as app:
        context = Caller(app.principal, COMMAND_SESSION, app.config)
        return await app.search.search(context, task, "scaffold", server, 10, None)


def add_arguments_sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=Path("servers"), help="default: ./servers")
    add_wait(parser)


def run_sync(parsed: argparse.Namespace) -> int:
    text, is_complete = anyio.run(_write, configuration(parsed), parsed.folder.absolute(), parsed.wait)
    show(text)
    return 0 if is_complete else 1


async def _write(loaded: LoadedSettings, folder: Path, wait_seconds: float) -> tuple[str, bool]:
    if loaded.path is None:
        raise CodemodeError(f"there is no configuration, so nothing to write. {' '.join(loaded.all_messages)}")
    async with inspected(loaded, wait_seconds) as app:
        catalog = app.catalog()
    try:
        lines = [f"{folder}: {sync(catalog, folder).text}"]
    except OSError as error:
        raise CodemodeError(f"{folder} can't be written: {error}; give another folder") from error
    if missing := [server.raw_name for server in catalog.servers if not is_well(server)]:
        names = ", ".join(missing)
        lines.append(f"not connected, so as of last time or missing: {names}; `codemode-server status` tells why")
    return "\n".join(lines), not missing
