"""What the examples share: real servers with some data, the product, and a host that is connected to it.

The host is MCP's own client, and starts the product over stdio as Claude or Cursor do. In place of a model, the example
says what to call. Everything that it sends and gets is printed. Run an example with the Python of `make setup`:
`.venv/bin/python examples/01_basic_tool_call.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from scripts.npm import Unavailable
from scripts.real_servers import entries

SECONDS = 180
"""For one call; the first program on a machine waits until the sandbox is compiled."""
SERVERS = ("calc", "filesystem", "memory", "orders")
"""Installed from PyPI and npm, once for all examples."""


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

    def configure(self, servers: dict[str, Any], **settings: Any) -> None:
        state = {"dir": str(self.folder / "state")}
        (self.folder / "upstream.yaml").write_text(json.dumps({"servers": servers, "state": state, **settings}))

    @asynccontextmanager
    async def session(self, *flags: str, environment: dict[str, str] | None = None) -> AsyncIterator[Session]:
        """A new process of the product for one session; the state of earlier ones is there. `flags` are of `serve`."""
        arguments = [
            "-m",
            "codemode_server",
            "serve",
            "--standalone",
            *flags,
            "--config",
            str(self.folder / "upstream.yaml"),
        ]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment)) as client:
            yield Session(client)


def run(main: Callable[[Example], Awaitable[None]], **settings: Any) -> None:
    """Runs an example in the folder that the command line names, or else in one that is removed afterwards."""
    try:
        with tempfile.TemporaryDirectory(prefix="codemode-example-") as temporary:
            example = Example(Path(sys.argv[1] if len(sys.argv) > 1 else temporary).resolve())
            example.configure(entries(example.folder, SERVERS), **settings)
            anyio.run(main, example)
    except* Unavailable as reasons:
        sys.exit(f"the servers can't be installed: {reasons.exceptions[0]}")
    except* ExampleFailed:
        sys.exit(1)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
