"""The `test` command: connects to one server, and shows its tools or the whole error."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import anyio

from codemode_server.catalog.catalog import Server
from codemode_server.cli.arguments import add_wait, config_file
from codemode_server.cli.edited_config import only
from codemode_server.cli.product import inspected
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.problems import no_server
from codemode_server.domain.tools import UpstreamState
from codemode_server.text import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER")
    add_wait(parser)


def run(parsed: argparse.Namespace) -> int:
    loaded, name = load(config_file(parsed)), parsed.server
    names = [*loaded.settings.servers, *loaded.invalid_servers]
    if name not in names:
        raise no_server(name, names)
    text, is_ready = anyio.run(_connected, _switched_on(only(loaded, [name]), name), parsed.wait)
    show(text)
    return 0 if is_ready else 1


def _switched_on(loaded: LoadedSettings, name: str) -> LoadedSettings:
    """A disabled server is started for its test."""
    server = loaded.settings.servers.get(name)
    if server is None or server.enabled:
        return loaded
    show(f"{name} is disabled; it is started for this test only")
    servers = {name: server.model_copy(update={"enabled": True})}
    return replace(loaded, settings=loaded.settings.model_copy(update={"servers": servers}))


async def _connected(loaded: LoadedSettings, wait_seconds: float) -> tuple[str, bool]:
    async with inspected(loaded, wait_seconds) as app:
        (server,) = app.catalog().servers
        mask = app.config.redactor.text
        lines = [one_line(mask(line)) for line in _lines(server)]
        return "\n".join(lines), server.state is UpstreamState.READY


def _lines(server: Server) -> Iterator[str]:
    yield f"{server.raw_name}: {server.state.value}" + (f", protocol {server.protocol}" if server.protocol else "")
    yield from server.error.split("\n") if server.error else ()
    yield from (f"left out: {problem}" for problem in server.problems)
    if server.state is UpstreamState.READY:
        count = len(server.tools)
        yield f"{count} tool{'s' * (count != 1)}{':' * bool(count)}"
        yield from (f"  {tool.raw_name}" for tool in server.tools)
