"""An upstream with resources, templates and prompts of every kind; over stdio: `library.py LOG`.

What was read and which prompts were asked for is appended to LOG, a line each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import ImageContent

LOG = Path(sys.argv[1])
server = MCPServer("library", log_level="CRITICAL")


def note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{line}\n")


@server.resource("library://readme", name="readme", mime_type="text/markdown", description="How the library works.")
def readme() -> str:
    note("readme")
    return "# Library"


@server.resource("library://catalog.json", name="catalog.json", mime_type="application/json")
def catalog() -> str:
    note("catalog")
    return '{"books": 3}'


@server.resource("library://private", name="private", description="For staff only.")
def private() -> str:
    note("private")
    return "staff only"


@server.resource("library://books/{number}", name="book", description="One book, by its number.")
def book(number: str) -> str:
    note(f"book {number}")
    return f"Book {number}"


@server.prompt(title="Summary of a book")
def summarise(title: str, style: str = "short") -> str:
    """Ask for a summary."""
    note(f"prompt summarise {title}"[:200])
    return f"Summarise {title} in a {style} way."


@server.prompt()
def illustrated() -> list[Any]:
    """A prompt with an image."""
    return [UserMessage(ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png"))]


if __name__ == "__main__":
    server.run("stdio")
