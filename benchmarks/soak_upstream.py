"""The upstreams of the soak: `soak_upstream.py` over stdio, `soak_upstream.py PORT` over HTTP."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

server = MCPServer("soak", log_level="CRITICAL")


@server.tool(description="Give the number back.")
def echo(number: int) -> dict[str, int]:
    return {"number": number}


@server.tool(description="Give so many rows.")
def rows(number: int) -> CallToolResult:
    found: list[dict[str, Any]] = [
        {"id": i, "status": ("open", "closed")[i % 2], "text": "x" * 50} for i in range(number)
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
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
