"""An upstream that lists a secret resource under several templates, and links to it; over stdio: `vault.py LOG`."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ResourceLink

LOG = Path(sys.argv[1])
server = MCPServer("vault", log_level="CRITICAL")


def note(text: str) -> str:
    with LOG.open("a") as log:
        log.write(f"{text}\n")
    return text


@server.resource("doc://secret/{id}", name="secret")
def secret(id: str) -> str:
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
    server.run("stdio")
