"""The commands `status`, which connects to every upstream, and `test`, which shows the tools or the error of one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

import anyio
import anyio.to_thread

from codemode_server.calls.policy.effect_proposals import proposal_lines
from codemode_server.calls.policy.explanation import rules_without_tools
from codemode_server.catalog.catalog import Server
from codemode_server.cli import workspace
from codemode_server.cli.arguments import add_wait
from codemode_server.cli.doctor import examine_sandbox
from codemode_server.cli.product import inspected
from codemode_server.cli.stop import running_lines
from codemode_server.cli.terminal import HOW_TO_ADD, configuration, show, table
from codemode_server.config import LoadedSettings
from codemode_server.config.problems import no_server
from codemode_server.domain.tools import UpstreamState, definition_text
from codemode_server.features import provided
from codemode_server.records.server_edits import only, switched_on
from codemode_server.search.vector_ranker import diagnose
from codemode_server.support.text import one_line
from codemode_server.support.tokens import estimate_tokens

_MAX_CELL_CHARACTERS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_wait(parser)


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed)
    text, is_as_configured = anyio.run(report, loaded, parsed.wait)
    show(text)
    return 0 if is_as_configured else 1


async def report(loaded: LoadedSettings, wait_seconds: float) -> tuple[str, bool]:
    """The page of text, and whether everything is as configured."""
    async with inspected(loaded, wait_seconds) as app:
        servers = app.catalog().servers
        sandbox = await examine_sandbox(loaded.settings.sandbox, boot=False)
        search = await anyio.to_thread.run_sync(diagnose, loaded.settings.search)
        files = await anyio.to_thread.run_sync(workspace.status_line, loaded)
        mask = app.config.redactor.text
        warned = (f"warning: {line}" for line in rules_without_tools(loaded.settings.permissions, app.catalog()))
        of_features = [line for status_lines in provided("status_lines") for line in await status_lines(app)]
        where = f"sandbox: {sandbox.destination}; `codemode-server doctor` tells more"
        packages = (check.line for check in sandbox.packages)
        proposals = proposal_lines(loaded.settings.permissions, app.catalog())
        running = await anyio.to_thread.run_sync(lambda: [*running_lines(loaded.place)])
        found = (*warned, *proposals, *of_features, files, f"search: {search.text}", where, *packages, *running)
        lines = [one_line(mask(line)) for line in found if line]
        page = "\n".join([servers_table(servers, mask), "", *lines])
        return page, sandbox.is_met and search.is_met and all(map(is_well, servers))


def is_well(server: Server) -> bool:
    return server.state in (UpstreamState.READY, UpstreamState.DISABLED)


def servers_table(servers: Sequence[Server], mask: Callable[[str], str]) -> str:
    """The upstreams, a line each, and what is wrong with them beneath; nothing that a server says makes more lines."""
    if not servers:
        return f"no servers are configured; {HOW_TO_ADD}"
    rows = [("server", "state", "protocol", "tools", "tokens")]
    notes: list[str] = []
    for server in servers:
        tokens = sum(estimate_tokens(definition_text(tool.definition)) for tool in server.tools)
        name = one_line(mask(server.raw_name), _MAX_CELL_CHARACTERS)
        protocol = one_line(mask(server.listing.protocol or "-"), _MAX_CELL_CHARACTERS)
        rows.append((name, server.state.value, protocol, f"{len(server.tools):,}", f"{tokens:,}"))
        notes += [_indented(mask(f"{name}: {server.error}"))] if server.error else []
        notes += [_indented(mask(f"{name}: {problem}")) for problem in server.problems]
    return "\n".join([*table(rows), *([""] if notes else []), *notes])


def _indented(note: str) -> str:
    """A note whose continuation lines can't be mistaken for lines of the page."""
    return "\n    ".join(map(one_line, note.split("\n")))


def add_arguments_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER")
    add_wait(parser)


def run_test(parsed: argparse.Namespace) -> int:
    loaded, name = configuration(parsed), parsed.server
    names = [*loaded.settings.servers, *loaded.invalid_servers]
    if name not in names:
        raise no_server(name, names)
    if name in loaded.settings.servers and not loaded.settings.servers[name].enabled:
        show(f"{name} is disabled; it is started for this test only")
    text, is_ready = anyio.run(_connected, switched_on(only(loaded, [name]), name), parsed.wait)
    show(text)
    return 0 if is_ready else 1


async def _connected(loaded: LoadedSettings, wait_seconds: float) -> tuple[str, bool]:
    async with inspected(loaded, wait_seconds) as app:
        (server,) = app.catalog().servers
        mask = app.config.redactor.text
        lines = [one_line(mask(line)) for line in _lines(server)]
        return "\n".join(lines), server.state is UpstreamState.READY


def _lines(server: Server) -> Iterator[str]:
    protocol = f", protocol {server.listing.protocol}" if server.listing.protocol else ""
    yield f"{server.raw_name}: {server.state.value}{protocol}"
    yield from server.error.split("\n") if server.error else ()
    yield from server.problems
    if server.state is UpstreamState.READY:
        count = len(server.tools)
        yield f"{count} tool{'s' * (count != 1)}{':' * bool(count)}"
        yield from (f"  {tool.raw_name}" for tool in server.tools)
