"""Whose request it is: the session id that keeps apart what the hosts of one product must not share.

- Over stdio, and in memory, a product has one host: all is one session.
- Over HTTP, up to protocol 2025-11-25, it is the session that the transport issued at `initialize`. A request that
  names another is answered 404 by the transport, one that names none 400, so the header is never of a client's making.
- Over HTTP, 2026-07-28, there are no sessions, and nobody checks that header: each request is a session of its own.
  Whoever can't be told apart shares nothing.

Who knows an issued session is let into it, so what is passed on, recorded and traced is a digest that says nothing of
it: its key is made anew in each process and kept nowhere.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codemode_server.model import Session

_HEADER = "mcp-session-id"
_BYTES = 8


class Sessions:
    """Tells the sessions of one front apart; they are forgotten with it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._without_http = Session(_new())

    def session_of(self, context: Context[None, Any] | None) -> Session:
        """The session of a request; the same for all requests of one session, and never another's."""
        if context is None or context.request_context.request is None:
            return self._without_http
        issued = context.headers.get(_HEADER) if context.headers else None
        if not issued or context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return Session(_new(), is_passing=True)
        return Session(hashlib.blake2b(issued.encode(), key=self._key, digest_size=_BYTES).hexdigest())


def _new() -> str:
    return secrets.token_hex(_BYTES)
