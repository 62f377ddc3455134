"""The `ui` command: opens local pages in a browser, those of a running product or its own until it is interrupted.

The address admits one browser, and whoever has it can approve calls. So it goes to the person's terminal and browser,
and never to the command's output, which a model that runs commands would read.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from codemode_server.cli.arguments import config_file
from codemode_server.cli.person_at_terminal import require_terminal, show_person
from codemode_server.cli.terminal import announce
from codemode_server.config import LoadedSettings, load
from codemode_server.domain.errors import CodemodeError
from codemode_server.web import serving
from codemode_server.web.admission import ENTRANCE, OneTimeCodes
from codemode_server.web.browser import Browser
from codemode_server.web.page_products import PageProduct

LINE = "This address opens the pages once, in one browser; do not pass it on. Ctrl+C ends them."
LINE_OF_PRODUCT = (
    "A running codemode-server serves the pages. This address opens them once, in one browser, within "
    f"{serving.MAX_AGE_S / 60:.0f} minutes; do not pass it on."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=None, metavar="NUMBER", help="serve here; default: a free one")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(parsed: argparse.Namespace) -> int:
    require_terminal()
    loaded = load(config_file(parsed))
    problem: BaseException | None = None
    try:
        anyio.run(_open, loaded, parsed.port, not parsed.no_browser)
    except* (OSError, CodemodeError) as group:  # of the tasks of the server
        problem = group.exceptions[0]
    if problem is not None:
        raise CodemodeError(f"the pages can't be served: {problem}") from problem
    return 0


async def _open(loaded: LoadedSettings, port: int | None, with_browser: bool) -> None:
    """Open the pages of a product, unless a port is asked for; there may be none."""
    browser = Browser("Open the pages of codemode-server")
    try:
        served = None if port is not None else await serving.found(loaded, announce)
        if served is not None:
            address = served.new_address()
            show_person(f"{address}\n{LINE_OF_PRODUCT}")
            if with_browser and await anyio.to_thread.run_sync(browser.open, address):
                await served.wait_opened(address)  # the browser reads its page from a file
            return
        async with opened(loaded, port or 0) as address:
            show_person(f"{address}\n{LINE}")
            if with_browser:
                await anyio.to_thread.run_sync(browser.open, address)
            await anyio.sleep_forever()
    finally:
        browser.close()


@asynccontextmanager
async def opened(loaded: LoadedSettings, port: int = 0) -> AsyncGenerator[str]:
    """Serve the pages until this is left; gives the address that admits a browser. Raises `OSError` if the port is
    taken; `JournalUnavailable`: the record can't be used."""
    codes = OneTimeCodes()
    async with serving.serving(PageProduct(loaded), codes, port) as origin:
        yield f"{origin}{ENTRANCE}{codes.new()}"


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text[:6]) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port")
