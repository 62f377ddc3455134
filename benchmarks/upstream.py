"""The upstream of the benchmarks: an MCP server over stdio that echoes, and gives 10,000 rows.

With a number as its argument it has so many tools, which echo as well.
"""

from __future__ import annotations

import sys
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

server = MCPServer("bench", log_level="CRITICAL")


@server.tool(description="Give the number back.")
def echo(number: int) -> dict[str, int]:
    return {"number": number}


@server.tool(description="Give 10,000 rows.")
def rows() -> CallToolResult:
    found: list[dict[str, Any]] = [
        {
            "id": i,
            "status": ("pending", "paid", "shipped")[i % 3],
            "amount": i * 1.37,
            "customer": f"c{i % 700}@example.com",
        }
        for i in range(10_000)
    ]
    return CallToolResult(content=[TextContent(type="text", text="10,000 rows")], structured_content={"result": found})


if __name__ == "__main__":
    for number in range(2, int(sys.argv[1]) if len(sys.argv) > 1 else 2):
        server.add_tool(echo, name=f"echo_{number}", description="Give the number back.")
    server.run("stdio")
