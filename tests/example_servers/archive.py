"""An upstream that answers with links to documents that it does not list; over stdio: `archive.py LOG`.

What was read of its resources is appended to LOG, a line each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ResourceLink, TextContent, ToolAnnotations

LOG = Path(sys.argv[1])


class Archive(MCPServer):
    """Lists none of its documents: only links lead to them."""

    async def list_resources(self) -> list[Any]:
        return []

    async def list_resource_templates(self) -> list[Any]:
        return []


server = Archive("archive", log_level="CRITICAL")


def note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{line}\n")


def link(number: int) -> ResourceLink:
    return ResourceLink(
        type="resource_link", uri=f"archive://letters/{number}", name=f"letter-{number}.txt", mime_type="text/plain"
    )


@server.resource("archive://letters/{number}", mime_type="text/plain")
def letter(number: str) -> str:
    note(f"letters/{number}")
    return f"Letter {number}: all is well."


@server.resource("archive://private", mime_type="text/plain")
def private() -> str:
    note("private")
    return "nobody was given a link to this"


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def find_letters(count: int = 3) -> CallToolResult:
    """Find letters; gives links to them."""
    said = TextContent(type="text", text=f"{count} letters")
    return CallToolResult(content=[said, *[link(number) for number in range(1, count + 1)]])


if __name__ == "__main__":
    server.run("stdio")
