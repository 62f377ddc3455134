"""Whose roots an upstream of a protocol up to 2025-11-25 has got, and the changed ones that it may ask for once.

Such an upstream asks for roots when it is told that they have changed, which is outside of any call.
"""

from __future__ import annotations

from typing import Any

import anyio

ASKING_S = 30.0
"""An upstream that is told of changed roots may ask for them so long."""


class GivenRoots:
    """What one connection has; each link begins anew."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._changed: tuple[float, dict[str, Any]] | None = None

    def note(self, session_id: str) -> None:
        """The upstream has got the roots of this session's host."""
        self._sessions.add(session_id)

    def are_of(self, session_id: str) -> bool:
        """Whether it has those of this session."""
        return session_id in self._sessions

    def change(self, answer: dict[str, Any]) -> None:
        """It is told that they have changed; `answer` is what it may ask for now."""
        self._changed = anyio.current_time() + ASKING_S, answer

    def take_changed(self) -> dict[str, Any] | None:
        """The answer to a request outside of any call, once; None: there is nothing to ask for."""
        changed, self._changed = self._changed, None
        return changed[1] if changed is not None and anyio.current_time() <= changed[0] else None
