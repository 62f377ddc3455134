"""A real MCP server that answers 401 to every request without the key in a file: `keyed_server.py PORT KEY LOG`; and
with `keyed_server.py PORT` to every request without any.

LOG gets a line for each request: `taken` or `refused`, its `Authorization`, and its `X-Also`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

port, *files = sys.argv[1:]
key, log = map(Path, files or (os.devnull, os.devnull))
server = MCPServer("keyed", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def show_key(ctx: Context) -> str:
    """What a careless server may answer."""
    return f"the key is {key.read_text()}"


@server.tool()
def whoami(ctx: Context) -> str:
    """The token of the request, without its last part."""
    request = ctx.request_context.request
    assert request is not None
    return str(request.headers["authorization"]).removeprefix("Bearer ").partition("-")[0]


class Keyed:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode() for name, value in scope["headers"]}
        given = headers.get(b"authorization", "-")
        is_taken = given == f"Bearer {key.read_text()}" if files else given != "-"
        with log.open("a") as file:
            file.write(f"{'taken' if is_taken else 'refused'} {given} {headers.get(b'x-also', '-')}\n")
        if is_taken:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


uvicorn.run(Keyed(server.streamable_http_app()), host="127.0.0.1", port=int(port), log_level="critical")
