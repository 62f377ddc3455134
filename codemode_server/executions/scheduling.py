"""Decides which program runs next: `limits.programs` at once, shared fairly among the sessions of a product.

Of those that wait, a program of the session that has the fewest running is next, and of these the first that came. With
several sessions about, none takes the last place while it has others: so whatever one session sends, another's program
starts at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from codemode_server.domain.errors import LimitExceeded
from codemode_server.domain.principals import Session
from codemode_server.settings import LimitSettings

_ACTIVE_SECONDS = 900.0
"""A session that has run nothing for so long has no place reserved for it."""


@dataclass(slots=True)
class QueuePlace:
    """The position of a waiting program."""

    place: int
    """1 for the next."""
    waiting: int
    running: int


@dataclass(slots=True, eq=False)
class _Waiting:
    session: Session
    on_place: Callable[[QueuePlace], None]


class Turns:
    """The places of one product. Used from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queue: list[_Waiting] = []
        self._running: Counter[str] = Counter()
        self._last_used: dict[str, float] = {}
        self._changed: anyio.Event | None = None

    @asynccontextmanager
    async def turn(
        self,
        session: Session,
        limits: LimitSettings,
        *,
        on_wait: Callable[[], None],
        on_place: Callable[[QueuePlace], None],
    ) -> AsyncIterator[None]:
        """A place, waited for at most `limits.queue_seconds`; `on_place` is called when the place in the queue changes.

        Raises:
            LimitExceeded: there was none in time.
        """
        waiting = _Waiting(session, on_place)
        self._note_use(session)
        with anyio.move_on_after(limits.queue_seconds) as patience:
            self._queue.append(waiting)
            self._report_places()
            try:
                while not self._is_next(waiting, limits.programs):
                    on_wait()
                    await self._change()
                self._running[session.session_id] += 1
            finally:
                self._queue.remove(waiting)
                self._notify()
        if patience.cancelled_caught:
            raise LimitExceeded(
                f"{limits.programs} programs are running already, and none ended within {limits.queue_seconds:g} s; "
                "try again later (the user can raise limits.programs or limits.queue_seconds)",
                setting="limits.programs",
            )
        try:
            yield
        finally:
            self._running[session.session_id] -= 1
            self._running += Counter()  # forgets those at zero
            self._notify()

    def _is_next(self, waiting: _Waiting, programs: int) -> bool:
        left = programs - self._running.total()
        return left > 0 and next((one for one in self._order() if self._may_take(one, left)), None) is waiting

    def _may_take(self, waiting: _Waiting, left: int) -> bool:
        return left > 1 or not self._running[waiting.session.session_id] or not self._are_others_active(waiting.session)

    def _order(self) -> list[_Waiting]:
        return sorted(self._queue, key=lambda one: self._running[one.session.session_id])

    def _are_others_active(self, session: Session) -> bool:
        """Whether another session has run a program lately."""
        now = self._clock()
        return any(now - used < _ACTIVE_SECONDS for name, used in self._last_used.items() if name != session.session_id)

    def _note_use(self, session: Session) -> None:
        if session.is_ephemeral:
            return  # it ends with this request
        now = self._clock()
        self._last_used = {name: used for name, used in self._last_used.items() if now - used < _ACTIVE_SECONDS}
        self._last_used[session.session_id] = now

    def _report_places(self) -> None:
        for place, waiting in enumerate(self._order(), 1):
            waiting.on_place(QueuePlace(place, len(self._queue), self._running.total()))

    def _notify(self) -> None:
        self._report_places()
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()
