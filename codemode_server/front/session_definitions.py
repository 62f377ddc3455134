"""Keeps the list of tools the same for a whole session, since hosts put it before everything that they send to a model.

The first request of a session fixes its list. Requests without a session (HTTP, protocol 2026-07-28) get the same list
until the tools of the servers or the settings change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codemode_server.domain.principals import Session

_MAX_SESSIONS = 256
"""Lists remembered; one is about 6 KB. A session that is forgotten gets the list as it is then."""

Definitions = list[dict[str, Any]]


class SessionDefinitions:
    """Remembers which list each session got."""

    def __init__(self) -> None:
        self._of_sessions: dict[str, Definitions] = {}
        self._without_session: tuple[object, Definitions] | None = None

    def of(self, session: Session, offered: object, build: Callable[[], Definitions]) -> Definitions:
        """The list of a session, built if this is its first request. `offered` is what it is built from."""
        if session.is_ephemeral:
            if self._without_session is None or self._without_session[0] != offered:
                self._without_session = offered, build()
            return self._without_session[1]
        known = self._of_sessions.pop(session.session_id, None) or build()
        self._of_sessions[session.session_id] = known  # the latest last
        if len(self._of_sessions) > _MAX_SESSIONS:
            del self._of_sessions[next(iter(self._of_sessions))]
        return known
