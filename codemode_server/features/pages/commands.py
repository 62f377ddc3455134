"""The `ui` command: serves local pages until it is interrupted, and opens them in a browser. Whoever has the address
can approve calls, so it never goes to the command's output, which a model that runs commands would read. The pages
start no program, and a server only where a person adds or tests one."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing

import anyio
import anyio.to_thread

from codemode_server.cli.stop import running_lines
from codemode_server.cli.terminal import configuration, require_terminal, show_person
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.features import create
from codemode_server.features.pages.config_edits import ConfigEdits
from codemode_server.features.pages.edit_forms import EditForms
from codemode_server.features.pages.import_forms import ImportForms
from codemode_server.features.pages.record_pages import RecordPages
from codemode_server.features.pages.report_pages import ReportPages
from codemode_server.features.pages.server_forms import ServerForms
from codemode_server.features.pages.server_pages import ServerPages
from codemode_server.features.pages.sign_in_forms import SignInForms
from codemode_server.features.pages.site import ENTRANCE, Site
from codemode_server.records.executions import Records
from codemode_server.support import loopback_server
from codemode_server.support.browser import Browser

LINE = "This address opens the pages once, in one browser; do not pass it on. Ctrl+C ends them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=0, metavar="NUMBER", help="serve here; default: a free one")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(parsed: argparse.Namespace) -> int:
    require_terminal()
    loaded = configuration(parsed)
    problem: BaseException | None = None
    try:
        anyio.run(_open, loaded, parsed.port, not parsed.no_browser)
    except* (OSError, CodemodeError) as group:  # of the tasks of the server
        problem = group.exceptions[0]
    if problem is not None:
        raise CodemodeError(f"the pages can't be served: {problem}") from problem
    return 0


@asynccontextmanager
async def serving(loaded: LoadedSettings, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages until this is left; gives the address that admits one browser. Raises `OSError`: the port is
    taken; `JournalUnavailable`: the record can't be used."""
    with closing(Records(loaded, shows_all=True)) as records:
        site = Site(records)
        RecordPages(site, records, create("token_reveals", loaded, records.thread))
        ReportPages(site, records)
        edits = ConfigEdits(site, records)
        forms = ServerForms(site, records, edits)
        ImportForms(site, edits)
        EditForms(site, records, forms, edits)
        async with anyio.create_task_group() as tasks:
            ServerPages(site, records, forms, SignInForms(site, forms, edits, tasks))
            async with loopback_server.serving(site.app, port=port) as origin:
                yield f"{origin}{ENTRANCE}{site.code}"
            tasks.cancel_scope.cancel()


async def _open(loaded: LoadedSettings, port: int, with_browser: bool) -> None:
    browser = Browser("Open the pages of codemode-server")
    try:
        async with serving(loaded, port) as address:
            running = await anyio.to_thread.run_sync(lambda: [*running_lines(loaded.place)])
            show_person("\n".join([address, LINE, *running]))
            if with_browser:
                await anyio.to_thread.run_sync(browser.open, address)
            await anyio.sleep_forever()
    finally:
        browser.close()


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text[:6]) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port")
