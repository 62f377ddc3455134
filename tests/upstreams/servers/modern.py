"""A well-behaved server on mcp 2.3, both eras: `modern.py [stdio | http PORT | sse PORT] [LOG]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

log = Path(sys.argv[3]) if len(sys.argv) > 3 else None
server = MCPServer("modern", instructions="# Modern\n\nEchoes and adds. Nothing else.", log_level="CRITICAL")
gate = anyio.Event()


def note(line: str) -> None:
    if log is not None:
        with log.open("a") as file:
            file.write(line + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def pid() -> int:
    return os.getpid()


@server.tool()
def fails() -> str:
    raise ToolError("the \x1b[31mred\x1b[0m thing broke")


@server.tool()
async def work(ctx: Context, steps: int, seconds: float) -> str:
    """Reports progress after each step."""
    for step in range(1, steps + 1):
        await anyio.sleep(seconds)
        await ctx.report_progress(step, steps)
    return "worked"


@server.tool()
async def hang(ctx: Context) -> str:
    note("hang started")
    try:
        await anyio.sleep_forever()
    except BaseException:
        note("hang cancelled")
        raise
    return "never"


@server.tool()
async def meet() -> str:
    """Returns when a second call of it has come."""
    if waiting:
        waiting.pop().set()
    else:
        waiting.append(anyio.Event())
        await waiting[0].wait()
    return "met"


waiting: list[anyio.Event] = []


@server.tool()
async def grow(ctx: Context) -> str:
    """Offers one more tool, and says so to both eras."""

    @server.tool()
    def grown() -> str:
        return "here"

    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
def whoami() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("PROBE_", "HOME"))}


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if kind == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    elif kind == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
