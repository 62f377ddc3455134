"""The `sync` command: writes the tree of stubs into a folder, for people and editors."""

from __future__ import annotations

import argparse
from pathlib import Path

import anyio

from codemode_server.catalog.sync import sync
from codemode_server.cli.arguments import add_wait, config_file
from codemode_server.cli.product import inspected
from codemode_server.cli.status import is_well
from codemode_server.cli.terminal import show
from codemode_server.config import load
from codemode_server.domain.errors import CodemodeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", default=Path("servers"), help="default: ./servers")
    add_wait(parser)


def run(parsed: argparse.Namespace) -> int:
    text, is_complete = anyio.run(_write, config_file(parsed), parsed.folder.absolute(), parsed.wait)
    show(text)
    return 0 if is_complete else 1


async def _write(config: Path | None, folder: Path, wait_seconds: float) -> tuple[str, bool]:
    loaded = load(config)
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
