"""Announces changed lists to hosts of protocols up to 2025-11-25, which don't subscribe: over stdio and over HTTP."""

from __future__ import annotations

from contextlib import suppress

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codemode_server.domain.principals import Session
from codemode_server.front.tools.registry import Changed

_MAX_SESSIONS = 256
"""As many as `front/http.py` has; what is sent to one that has ended is dropped."""
_SEND_S = 5.0
"""A host that does not read its stream must not keep the others waiting."""


class Announcements:
    """The sessions that have asked for a list, each with its way to the host."""

    def __init__(self) -> None:
        self._sessions: dict[str, ServerSession] = {}

    def note(self, session: Session, request: ServerRequestContext[object, object] | None) -> None:
        """The session has asked for a list in this request."""
        if request is None or session.is_ephemeral or request.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = request.session  # the latest last
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    async def send(self, changed: Changed) -> None:
        """Tell all of them that a list has changed."""
        async with anyio.create_task_group() as tasks:
            for session in list(self._sessions.values()):
                tasks.start_soon(_send, session, changed)


async def _send(session: ServerSession, changed: Changed) -> None:
    with anyio.move_on_after(_SEND_S), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if changed == "tools":
            await session.send_tool_list_changed()
        else:
            await session.send_prompt_list_changed()
