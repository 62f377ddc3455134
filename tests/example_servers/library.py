"""Upstreams with resources, templates, prompts and links, one in a process; over stdio: `library.py NAME LOG`.

NAME is library, archive or vault. What was read and which prompts were asked for is appended to LOG, a line each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import CallToolResult, ImageContent, ResourceLink, TextContent, ToolAnnotations


def note(line: str) -> str:
    with Path(sys.argv[2]).open("a") as log:
        log.write(f"{line}\n")
    return line


def library(server: MCPServer) -> None:
    """Resources, a template and prompts of every kind."""

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


class Unlisted(MCPServer):
    """Lists none of its documents: only links lead to them."""

    async def list_resources(self) -> list[Any]:
        return []

    async def list_resource_templates(self) -> list[Any]:
        return []


def archive(server: MCPServer) -> None:
    """A tool that answers with links to documents that are not listed."""

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
        names = [(f"archive://letters/{number}", f"letter-{number}.txt") for number in range(1, count + 1)]
        links = [ResourceLink(type="resource_link", uri=uri, name=name, mime_type="text/plain") for uri, name in names]
        return CallToolResult(content=[said, *links])


def vault(server: MCPServer) -> None:
    """A secret resource under several templates, and a link to it."""

    @server.resource("doc://secret/{id}", name="secret")
    def secret(id: str) -> str:  # noqa: A002 - the name in the template
        return note(f"secret {id}")

    @server.resource("doc://{+path}", name="any")
    def anything(path: str) -> str:
        return note(f"any {path}")

    @server.resource("file:///data/private.txt", name="private")
    def private() -> str:
        return note("private")

    @server.resource("file:///data/{name}", name="data")
    def data(name: str) -> str:
        return note(f"data {name}")

    @server.tool()
    def find() -> list[ResourceLink]:
        """Find documents."""
        uris = ["doc://secret/7", "file:///data/private.txt", "doc://open/1"]
        return [ResourceLink(type="resource_link", uri=uri, name=uri) for uri in uris]


if __name__ == "__main__":
    name = sys.argv[1]
    made = (Unlisted if name == "archive" else MCPServer)(name, log_level="CRITICAL")
    {it.__name__: it for it in (library, archive, vault)}[name](made)
    made.run("stdio")
