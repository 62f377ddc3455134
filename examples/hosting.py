"""What the examples share: real servers with some data, the product, and a host that is connected to it.

The host is MCP's own client, and starts the product over stdio as Claude or Cursor do. In place of a model, the example
says what to call. Everything that it sends and gets is printed. Run an example with the Python of `make setup`:
`.venv/bin/python examples/01_basic_tool_call.py`.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from scripts.npm import Unavailable
from scripts.real_servers import commands

SECONDS = 180
"""For one call; the first program on a machine waits until the sandbox is compiled."""


class ExampleFailed(Exception):
    """Raised when a call of an example failed; what it said has been printed."""


@dataclass(frozen=True)
class Session:
    """A host's connection to the product."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> str:
        """Calls one of the four tools, and prints both ends; the example ends if the call fails."""
        code = arguments.get("code")
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items() if name != "code")
        print(f"\n> {tool}({shown})")
        if code is not None:
            print(_indented(code.strip()))
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=SECONDS)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        print(text)
        if result.is_error:
            raise ExampleFailed(f"{tool} failed")
        return text

    async def run(self, code: str, **arguments: Any) -> str:
        return await self.call("execute_code", code=code, **arguments)


@dataclass(frozen=True)
class Example:
    """The folder of one example: its configuration, the state of the product, and the data of the servers."""

    folder: Path

    @property
    def files(self) -> Path:
        """The folder of the server `filesystem`."""
        return self.folder / "files"

    @asynccontextmanager
    async def session(self, *flags: str, environment: dict[str, str] | None = None) -> AsyncIterator[Session]:
        """A new process of the product for one session; the state of earlier ones is there. `flags` are of `serve`."""
        arguments = ["-m", "codemode_server", "serve", *flags, "--config", str(self.folder / "upstream.yaml")]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment)) as client:
            yield Session(client)


def run(main: Callable[[Example], Awaitable[None]], **settings: Any) -> None:
    """Runs an example in the folder that the command line names, or else in one that is removed afterwards."""
    try:
        with tempfile.TemporaryDirectory(prefix="codemode-example-") as temporary:
            example = Example(Path(sys.argv[1] if len(sys.argv) > 1 else temporary).resolve())
            _prepare(example, settings)
            anyio.run(main, example)
    except* Unavailable as reasons:
        sys.exit(f"the servers can't be installed: {reasons.exceptions[0]}")
    except* ExampleFailed:
        sys.exit(1)


def _prepare(example: Example, settings: dict[str, Any]) -> None:
    """Writes the configuration and the data; installs the servers from PyPI and npm, once for all examples."""
    example.files.mkdir(parents=True, exist_ok=True)
    started = commands(["calc", "filesystem", "memory", "sqlite"])
    database = example.folder / "orders.db"
    servers = {
        "calc": started["calc"],
        "filesystem": [*started["filesystem"], str(example.files)],
        "memory": started["memory"],
        "orders": [*started["sqlite"], "--db-path", str(database)],
    }
    entries: dict[str, dict[str, Any]] = {
        name: {"command": command, "args": rest} for name, (command, *rest) in servers.items()
    }
    entries["memory"]["env"] = {"MEMORY_FILE_PATH": str(example.folder / "memory.jsonl")}
    state = {"dir": str(example.folder / "state")}
    (example.folder / "upstream.yaml").write_text(json.dumps({"servers": entries, "state": state, **settings}))
    if not database.exists():
        _write_orders(database)


def _write_orders(path: Path) -> None:
    """10,000 orders of 700 customers, the same each time."""
    statuses = ("pending", "shipped", "paid", "cancelled")
    rows = [
        (number, statuses[number % 4], round(10 + number * 0.37 % 490, 2), f"customer{number % 700:03}@example.com")
        for number in range(10_000)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER, status TEXT, amount REAL, customer TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
