"""A protected MCP server on mcp's own `AuthSettings`: `protected_server.py PORT ISSUER LOG`.

Tokens are checked by introspection: active, of this issuer, for this server. LOG gets a line for each request: its
method and a digest of its token.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Message, Receive, Scope, Send

port, issuer, log = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
resource = f"http://127.0.0.1:{port}/mcp"
forgotten: set[str] = set()


class Introspection:
    """mcp's `TokenVerifier`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient(auth=("protected-server", "introspection-secret")) as client:
            answer = await client.post(f"{issuer}/token/introspection", data={"token": token})
        said: dict[str, Any] = answer.json()
        if token in forgotten or not said.get("active") or said.get("iss") != issuer or said.get("aud") != resource:
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said.get("scope", "").split(),
            expires_at=said.get("exp"),
            resource=said["aud"],
            subject=said.get("sub"),
        )


server = MCPServer(
    "protected",
    token_verifier=Introspection(),
    auth=AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        resource_server_url=AnyHttpUrl(resource),
        required_scopes=["read"],
        validate_token_resource=True,
    ),
    log_level="CRITICAL",
)


@server.tool()
def whoami() -> str:
    """Who is signed in."""
    token = get_access_token()
    return (token and token.subject) or "nobody"


@server.tool()
def forget_token() -> str:
    """From now on, the token of this request is refused, as one that has expired."""
    token = get_access_token()
    assert token is not None
    forgotten.add(token.token)
    return "forgotten"


@server.tool()
def write_note(text: str) -> str:
    """Needs the scope `write`."""
    return f"written: {text}"


class StepUp:
    """Refuses `write_note` to tokens without the scope `write`, as the specification says: with HTTP 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        message: Message = await receive()
        body: bytes = message.get("body", b"")
        headers = {name: value.decode() for name, value in scope["headers"]}
        token = headers.get(b"authorization", "").removeprefix("Bearer ")
        with log.open("a") as file:  # noqa: ASYNC230 - a test
            file.write(f"{scope['method']} {hashlib.sha256(token.encode()).hexdigest()[:8] if token else '-'}\n")
        if b'"write_note"' in body and token:
            known = await Introspection().verify_token(token)
            if known is not None and "write" not in known.scopes:
                challenge = b'Bearer error="insufficient_scope", scope="write"'
                await send(
                    {"type": "http.response.start", "status": 403, "headers": [(b"www-authenticate", challenge)]}
                )
                await send({"type": "http.response.body", "body": b""})
                return
        is_first = True

        async def again() -> Message:
            nonlocal is_first
            if is_first:
                is_first = False
                return message
            return await receive()

        await self._app(scope, again, send)


if __name__ == "__main__":
    app = StepUp(server.streamable_http_app(stateless_http=True))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")
