"""Finds out who sends a request: hosts that use the same product must not see each other's results.

- Over streams each connection of a host has a session (`McpServer.run_connection`). In memory all is one session.
- Over HTTP, the request brings the principal that its token proves, and a session of one principal is none of another.
- Over HTTP, up to protocol 2025-11-25, it is the session that the transport issued at `initialize`. A request that
  names another is answered 404 by the transport, one that names none 400, so a client can't invent the header.
- Over HTTP, 2026-07-28, there are no sessions, and nobody checks that header: each request is a session of its own.
  So nothing is shared between requests that can't be told apart.

Anyone who knows an issued session id can use the session, so only a keyed digest of it is passed on, recorded and
traced. The key is stored nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.principals import Identity, Session
from codemode_server.mcp_server.auth.authenticator import identity_of

_HEADER = "mcp-session-id"
_BYTES = 8


class Callers:
    """Gives each session of one server its id; ids end with the server."""

    def __init__(self, key: bytes) -> None:
        """`key`: 32 bytes."""
        self._key = key
        self._without_http = Session(_new())

    def caller(self, context: ServerRequestContext[Any, Any], config: LiveConfig) -> Caller:
        session, identity = self._identified(context)
        return Caller.of(session, config, identity)

    def session(self, context: ServerRequestContext[Any, Any]) -> Session:
        """The session of a request; the same for all requests of one session, and never another's."""
        return self._identified(context)[0]

    def _identified(self, context: ServerRequestContext[Any, Any]) -> tuple[Session, Identity | None]:
        if context.request is None:
            return context.lifespan_context or self._without_http, None
        identity, issued = identity_of(context.request.scope), context.request.headers.get(_HEADER)
        if not issued or context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return Session(_new(), is_ephemeral=True), identity
        whose = identity.principal.principal_id if identity else ""
        digest = hashlib.blake2b(f"{whose}\0{issued}".encode(), key=self._key, digest_size=_BYTES)
        return Session(digest.hexdigest()), identity


def _new() -> str:
    return secrets.token_hex(_BYTES)
