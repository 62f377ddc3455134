"""The time of small programs beside two published packages, in one run: writes PEERS.md. `make bench-peers`.

Each server is started as a host starts it, over stdio, with the same upstream of 600 tools and the same client.
FastMCP's `CodeMode` stands before its proxy; toolplane runs as its README says. Both run programs in Monty, an
interpreter of a subset of Python inside their own process; codemode-server runs CPython in a sandbox outside of it.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from codemode_server import __version__
from scripts.npm import Unavailable
from scripts.real_servers import environment

HERE = Path(__file__).parent
REPORT = HERE.parent / "PEERS.md"
UPSTREAM = [str(HERE.parent / "upstream.py"), "600"]
REQUIREMENTS = ("toolplane==0.5.2", "fastmcp==4.1.2", "pydantic-monty==1.4.0")
RUNS = 21
WARM_UP = 3
MANY = 11
"""Calls of the third program; with the second, the cost of each further call."""


@dataclass(frozen=True)
class Server:
    """One server with its way to run a program."""

    name: str
    command: Sequence[str]
    tool: str
    one: str
    """The program `1 + 1`."""
    call: str
    """A call of the upstream's `echo_5`, as an expression."""
    before: str = ""
    """Lines before the first call."""
    result: str = "return "

    def programs(self) -> tuple[str, str, str]:
        many = f"{self.before}for _ in range({MANY}):\n    answer = {self.call}\n{self.result}answer"
        return self.one, f"{self.before}{self.result}{self.call}", many


@dataclass(frozen=True)
class Times:
    """Medians in milliseconds."""

    name: str
    one: float
    call: float
    further: float


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        servers = [_ours(Path(place))]
        try:
            servers += _peers(Path(place))
        except Unavailable as error:
            print(f"the peers can't be installed: {error}", file=sys.stderr)
        with Path(os.devnull).open("w") as quiet:
            found = [anyio.run(_measure, server, quiet) for server in servers]
    REPORT.write_text(_markdown(found))
    print(REPORT.read_text())


def _ours(place: Path) -> Server:
    config = place / "upstream.json"
    config.write_text(
        json.dumps(
            {
                "servers": {"bench": {"command": sys.executable, "args": UPSTREAM}},
                "sandbox": {"backend": "wasm"},
                "search": {"ranker": "static"},  # the peers have no model that indexes the tools meanwhile
                "state": {"dir": str(place / "state")},
            }
        )
    )
    command = (sys.executable, "-m", "codemode_server", "--config", str(config))
    return Server(
        f"codemode-server {__version__}",
        command,
        "execute_code",
        one="1 + 1",
        call="echo_5(number=1)",
        before="from servers.bench import echo_5\n",
        result="",
    )


def _peers(place: Path) -> list[Server]:
    python = environment("peers", REQUIREMENTS, "\n".join(REQUIREMENTS))
    versions = dict(one.split("==") for one in REQUIREMENTS)
    config = place / "fastmcp.json"
    config.write_text(json.dumps({"mcpServers": {"bench": {"command": sys.executable, "args": UPSTREAM}}}))
    toml = place / "toolplane.toml"
    toml.write_text(f"[mcp.servers.bench]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(UPSTREAM)}\n")
    return [
        Server(
            f"toolplane {versions['toolplane']}",
            (str(python.with_name("toolplane")), "serve", "mcp", "--config", str(toml)),
            "execute_code",
            one="return 1 + 1",
            call='await call_tool("mcp:bench/echo_5", {"number": 1})',
        ),
        Server(
            f"FastMCP {versions['fastmcp']} `CodeMode`",
            (str(python), str(HERE / "fastmcp_server.py"), str(config)),
            "execute",
            one="return 1 + 1",
            call='await call_tool("echo_5", {"number": 1})',
        ),
    ]


async def _measure(server: Server, log: TextIO) -> Times:
    command, *arguments = server.command
    process = stdio_client(StdioServerParameters(command=command, args=arguments), errlog=log)
    async with Client(process, mode="legacy") as client:
        one, call, many = [await _median(client, server, code) for code in server.programs()]
    return Times(server.name, one, call, (many - call) / (MANY - 1))


async def _median(client: Client, server: Server, code: str) -> float:
    times = []
    for number in range(WARM_UP + RUNS):
        started = time.perf_counter()
        answer = await client.call_tool(server.tool, {"code": code}, read_timeout_seconds=120)
        if answer.is_error:
            raise RuntimeError(f"{server.name}: {answer.content}")
        if number >= WARM_UP:
            times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def _markdown(found: Sequence[Times]) -> str:
    first = found[0]
    lines = [
        "# Small programs beside others",
        "",
        f"`make bench-peers` on {datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}: {os.cpu_count()} cores, Python "
        f"{sys.version.split()[0]}. Milliseconds, medians of {RUNS}; in brackets over codemode-server's.",
        "",
        "One upstream with 600 tools over stdio, one client. codemode-server runs CPython in a sandbox outside its own",
        "process, checks the program against the tools and records each call; the others interpret a subset of Python",
        "inside their process. FastMCP's proxy starts the upstream anew for each request.",
        "",
        "| | `1 + 1` | a program with one call | each further call |",
        "|---|---|---|---|",
    ]
    for times in found:
        cells = [
            f"{value:.1f} ({value / ours:.2f} x)"
            for value, ours in ((times.one, first.one), (times.call, first.call), (times.further, first.further))
        ]
        lines.append(f"| {times.name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
