"""A server that connects everybody and wants a token for one tool only: `half_public_server.py PORT`."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

server = MCPServer("half-public", log_level="CRITICAL")


@server.tool()
def public() -> str:
    return "for all"


@server.tool()
def private() -> str:
    return "for some"


class Refuse:
    """HTTP 401 for calls of `private`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if b'"tools/call"' in body and b'"private"' in body:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b""})
            return
        is_sent = False

        async def again() -> Message:
            nonlocal is_sent
            if is_sent:
                return await receive()
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


if __name__ == "__main__":
    app = Refuse(server.streamable_http_app(stateless_http=True))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
