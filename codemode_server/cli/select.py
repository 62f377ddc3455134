"""The `select` command: connects to the servers, and prints the tools for a task as a program to start from."""

from __future__ import annotations

import argparse
import json
from functools import partial

import anyio

from codemode_server.cli.arguments import add_wait
from codemode_server.cli.product import inspected
from codemode_server.cli.terminal import configuration, show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import RequestContext
from codemode_server.domain.principals import Session
from codemode_server.search.results import SearchResults

_SESSION = Session("select", is_ephemeral=True)


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
        context = RequestContext(app.principal, _SESSION, app.config)
        return await app.search.search(context, task, "scaffold", server, 10, None)
