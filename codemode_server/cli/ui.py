"""The `ui` command: serves local pages in a browser until it is interrupted.

The address admits one browser, and whoever has it can approve calls. So it goes to the person's terminal and browser,
and never to the command's output, which a model that runs commands would read.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.person_at_terminal import require_terminal, show_person
from codemode_server.config import LoadedSettings, load
from codemode_server.domain.errors import CodemodeError
from codemode_server.first_listing import state_folder
from codemode_server.web.browser import Browser

LINE = "This address opens the pages once, in one browser; do not pass it on. Ctrl+C ends them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--port", type=_port, default=0, metavar="NUMBER", help="default: a free one")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(parsed: argparse.Namespace) -> int:
    require_terminal()
    loaded = load(config_file(parsed))
    problem: BaseException | None = None
    try:
        anyio.run(_serve, loaded, parsed.port, not parsed.no_browser)
    except* (OSError, CodemodeError) as group:  # of the tasks of the server
        problem = group.exceptions[0]
    if problem is not None:
        raise CodemodeError(f"the pages can't be served: {problem}") from problem
    return 0


async def _serve(loaded: LoadedSettings, port: int, with_browser: bool) -> None:
    browser = Browser("Open the pages of codemode-server")
    try:
        async with opened(loaded, port) as address:
            show_person(f"{address}\n{LINE}")
            if with_browser:
                await anyio.to_thread.run_sync(browser.open, address)
            await anyio.sleep_forever()
    finally:
        browser.close()


@asynccontextmanager
async def opened(loaded: LoadedSettings, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages until this is left; gives the address that admits a browser.

    Raises:
        OSError: the port is taken.
        JournalUnavailable: the record can't be used.
    """
    from codemode_server.cli.token_reveals import TokenReveals
    from codemode_server.cli.ui_records import StoredRecords
    from codemode_server.cli.ui_servers import StoredServers
    from codemode_server.storage.database import Database
    from codemode_server.storage.database_thread import DatabaseThread
    from codemode_server.web import local_server
    from codemode_server.web.ui.admission import Admission
    from codemode_server.web.ui.site import UiSite

    folder = state_folder(loaded.settings)
    databases, thread = (Database(folder), Database(folder)), DatabaseThread(folder)
    definitions = Database(folder)
    try:
        async with anyio.create_task_group() as tasks:
            records = StoredRecords(loaded, databases, thread, tasks)
            servers = StoredServers(loaded, definitions, thread, tasks)

            def site_at(origin: str) -> UiSite:
                return UiSite(origin, records, servers, TokenReveals(loaded, thread), Admission())

            async with local_server.serving(site_at, port=port) as site:
                yield site.address
            tasks.cancel_scope.cancel()
    finally:
        thread.close()
        for database in (*databases, definitions):
            database.close()


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text[:6]) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port")
