"""The upstream of the benchmarks and the soak: an MCP server over stdio, or over HTTP with `--port PORT`.

With a number as its argument it has so many tools, which echo as well.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

server = MCPServer("bench", log_level="CRITICAL")


@server.tool(description="Give the number back.")
def echo(number: int) -> dict[str, int]:
    return {"number": number}


@server.tool(description="Give so many rows.")
def rows(number: int = 10_000) -> CallToolResult:
    found: list[dict[str, Any]] = [
        {"id": n, "status": ("pending", "paid", "shipped")[n % 3], "amount": n * 1.37, "customer": f"c{n % 700}@x.org"}
        for n in range(number)
    ]
    return CallToolResult(content=[TextContent(type="text", text="rows")], structured_content={"result": found})


@server.tool(description="Fail.")
def fail(number: int) -> str:
    raise ValueError(f"failed for {number}")


@server.tool(description="Take so many seconds.")
async def slow(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "late"


@server.tool(description="End this server's process.")
def crash() -> str:
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--port"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        for number in range(5, int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            server.add_tool(echo, name=f"echo_{number}", description="Give the number back.")
        server.run("stdio")
