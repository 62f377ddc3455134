"""An upstream that answers with links, embedded documents, images and pages; over stdio: `archive.py [LOG]`.

What was read of its resources is appended to LOG, a line each.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from typing_extensions import TypedDict

LOG = Path(sys.argv[1]) if len(sys.argv) > 1 else None
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
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


@server.tool(annotations=READS)
def list_boxes(cursor: str | None = None) -> dict[str, Any]:
    """List boxes, two at a time."""
    start = int(cursor or 0)
    return {
        "boxes": [{"box": number} for number in range(start, min(start + 2, 5))],
        "next_cursor": str(start + 2) if start + 2 < 5 else None,
    }


@server.tool(annotations=READS)
def weigh(box: int) -> dict[str, int]:
    """Weigh a box."""
    if box == 3:
        raise ToolError("box 3 is too heavy")
    return {"box": box, "grams": box * 100}


class Media(TypedDict):
    content: list[dict[str, str]]


@server.tool(annotations=READS)
def read_media() -> Annotated[CallToolResult, Media]:
    """Read a picture; as the reference server does, it stands in the content and once more in the structured result."""
    image = ImageContent(type="image", data=base64.b64encode(PICTURE).decode(), mime_type="image/png")
    structured = {"content": [{"type": "image", "data": image.data, "mimeType": "image/png"}]}
    return CallToolResult(content=[image], structured_content=structured)


if __name__ == "__main__":
    server.run("stdio")
