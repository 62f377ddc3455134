"""Counts programs, to tell how many workers are worth keeping and which are kept for other sessions.

Starting a worker costs more processor time than a short program. So after several programs at once their workers are
kept for a while; and a session that runs several leaves an idle one to the others, which would wait for a start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from codemode_server.sandbox.contract import Program

RECENT_SECONDS = 5.0


class Demand:
    """The programs that run and that ran lately. Used from one event loop."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._last_run: dict[str, float] = {}
        self._most = 0
        self._most_at = 0.0

    @contextmanager
    def counted(self, program: Program) -> Iterator[None]:
        """Count a program while it runs."""
        session, now = program.session_id, anyio.current_time()
        self._running[session] += 1
        if self._running.total() >= self.most_at_once():
            self._most, self._most_at = self._running.total(), now
        try:
            yield
        finally:
            self._running[session] -= 1
            self._running += Counter()  # forgets those at zero
            self._last_run[session] = anyio.current_time()

    def most_at_once(self) -> int:
        """The most programs that ran at once lately."""
        return self._most if anyio.current_time() - self._most_at < RECENT_SECONDS else self._running.total()

    def reserved(self, program: Program) -> int:
        """How many idle workers a program that is counted leaves to other sessions."""
        since = anyio.current_time() - RECENT_SECONDS
        self._last_run = {session: ended for session, ended in self._last_run.items() if ended > since}
        are_others_active = any(session != program.session_id for session in self._last_run)
        return int(self._running[program.session_id] > 1 and are_others_active)
