"""An MCP server that knows people by their bearer tokens, over HTTP: `named.py PORT`.

`whoami` gives the token of the request, without its last part.
"""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("named", log_level="CRITICAL")


@server.tool()
def whoami(ctx: Context) -> str:
    request = ctx.request_context.request
    assert request is not None
    return str(request.headers["authorization"]).removeprefix("Bearer ").partition("-")[0]


class Named:
    """Answers 401 to requests without a token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not any(name == b"authorization" for name, _ in scope["headers"]):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


uvicorn.run(Named(server.streamable_http_app()), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
