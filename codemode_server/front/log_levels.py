"""The levels of log messages that hosts up to protocol 2025-11-25 have set, by their sessions."""

from __future__ import annotations

from codemode_server.domain.log_messages import DEFAULT_LEVEL
from codemode_server.domain.principals import Session

_MAX_SESSIONS = 1_000
"""The level of a session that is forgotten is the default again."""


class LogLevels:
    """Implements `logging/setLevel`."""

    def __init__(self) -> None:
        self._levels: dict[str, str] = {}

    def set(self, session: Session, level: str) -> None:
        self._levels.pop(session.session_id, None)
        self._levels[session.session_id] = level
        if len(self._levels) > _MAX_SESSIONS:
            del self._levels[next(iter(self._levels))]

    def of(self, session: Session) -> str:
        return self._levels.get(session.session_id, DEFAULT_LEVEL)
