"""An upstream that answers with links, embedded documents, images and pages; over stdio: `archive.py [LOG]`.

What was read of its resources is appended to LOG, a line each.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

LOG = Path(sys.argv[1]) if len(sys.argv) > 1 else None
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
READS = ToolAnnotations(read_only_hint=True)


class Archive(MCPServer):
    """Lists none of its documents: only links lead to them."""

    async def list_resources(self) -> list[Any]:
        return []

    async def list_resource_templates(self) -> list[Any]:
        return []


server = Archive("archive", log_level="CRITICAL")


def note(line: str) -> None:
    if LOG is not None:
        with LOG.open("a") as log:
            log.write(f"{line}\n")


def link(number: int) -> ResourceLink:
    return ResourceLink(
        type="resource_link", uri=f"archive://letters/{number}", name=f"letter-{number}.txt", mime_type="text/plain"
    )


@server.resource("archive://letters/{number}", mime_type="text/plain")
def letter(number: str) -> str:
    note(f"letters/{number}")
    if number == "13":
        raise ValueError("letter 13 is lost")
    return f"Letter {number}: all is well."


@server.resource("archive://slow", mime_type="text/plain")
async def slow() -> str:
    note("slow started")
    try:
        await anyio.sleep_forever()
    finally:
        note("slow ended")
    return ""


@server.resource("archive://private", mime_type="text/plain")
def private() -> str:
    note("private")
    return "nobody was given a link to this"


@server.tool(annotations=READS, structured_output=False)
def find_letters(count: int = 3) -> CallToolResult:
    """Find letters; gives links to them."""
    said = TextContent(type="text", text=f"{count} letters")
    return CallToolResult(content=[said, *[link(number) for number in range(1, count + 1)]])


@server.tool(annotations=READS, structured_output=False)
def lost_letter() -> CallToolResult:
    """A link to what can't be read."""
    return CallToolResult(content=[link(13)])


@server.tool(annotations=READS, structured_output=False)
def scan() -> CallToolResult:
    """A picture of a page, what is on it, and the page's facts."""
    page = TextResourceContents(uri="archive://pages/1", text='{"words": 3}', mime_type="application/json")
    return CallToolResult(
        content=[
            TextContent(type="text", text="page 1"),
            ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            EmbeddedResource(type="resource", resource=page),
        ]
    )


if __name__ == "__main__":
    server.run("stdio")
