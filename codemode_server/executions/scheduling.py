"""Decides which program runs next: `limits.programs` at once, shared fairly among the sessions of a product.

Of those that wait, a program of the session that has the fewest running is next, and of these the first that came. With
several sessions about, none takes the last place while it has others: so whatever one session sends, another's program
starts at once. No principal has more than `limits.principal_programs` running, in all of its sessions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import LimitExceeded
from codemode_server.domain.principals import Owner, Principal, Session

_ACTIVE_SECONDS = 900.0
"""A session that has run nothing for so long has no place reserved for it."""


@dataclass(slots=True, eq=False)
class _Waiting:
    owner: Owner
    limits: LimitSettings
    """Those at the time it came."""
    is_running: bool = False
    """It left the queue and has a place."""
    started: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class Turns:
    """The places of one product. Used from one event loop."""

    clock: Callable[[], float] = time.monotonic
    attached: Set[str] = frozenset()
    """The sessions whose hosts are connected, where that is known. They count as active also before a program."""
    _last_used: dict[str, float] = field(default_factory=dict)
    """By session."""
    _queue: list[_Waiting] = field(default_factory=list)
    _running: Counter[str] = field(default_factory=Counter)
    """By session."""
    _of_principals: Counter[Principal] = field(default_factory=Counter)
    """Running, too."""
    _suspended: Counter[Principal] = field(default_factory=Counter)

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many have one."""
        return self._running.total()

    @asynccontextmanager
    async def turn(
        self,
        owner: Owner,
        limits: LimitSettings,
        on_wait: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[None]:
        """A place, waited for at most `limits.queue_seconds`; `on_wait` is called if it has to wait. Raises
        `LimitExceeded` if there was none in time."""
        waiting = _Waiting(owner, limits)
        self._note_use(owner.session)
        self._queue.append(waiting)
        try:
            self._give_places()
            if not waiting.is_running:
                on_wait()
                with anyio.move_on_after(limits.queue_seconds):
                    await waiting.started.wait()
            if not waiting.is_running:
                raise self._refusal(waiting)
            yield
        finally:
            self._leave(waiting)

    def _refusal(self, waiting: _Waiting) -> LimitExceeded:
        own, limits = waiting.limits.principal_programs, waiting.limits
        is_own = bool(own) and self._of_principals[waiting.owner.principal] >= own
        number, setting = (own, "limits.principal_programs") if is_own else (limits.programs, "limits.programs")
        whose = " of this principal" if is_own else ""
        return LimitExceeded(
            f"{number} programs{whose} are running already, and none ended within {limits.queue_seconds:g} s; try "
            f"again later (the user can raise {setting} or limits.queue_seconds)",
            setting=setting,
        )

    def suspend(self, owner: Owner, limits: LimitSettings) -> bool:
        """Free the place of a program that waits for a person, until `go_on`. At most as many programs do so as may
        run, in all and of a principal, since each holds a sandbox and runs on at once; False: it keeps its place."""
        own = limits.principal_programs or limits.programs
        if self._suspended.total() >= limits.programs or self._suspended[owner.principal] >= own:
            return False
        self._suspended[owner.principal] += 1
        self._count(owner, -1)
        self._give_places()
        return True

    def go_on(self, owner: Owner) -> None:
        """A suspended program runs again, at once: for a while there may be more than the limits allow, but never
        more than twice as many."""
        self._suspended[owner.principal] -= 1
        self._count(owner, 1)

    def _count(self, owner: Owner, change: int) -> None:
        self._running[owner.session.session_id] += change
        self._of_principals[owner.principal] += change

    def _give_places(self) -> None:
        """Let those start whose turn it is. Only they are woken: with many waiting, waking all for each end is slow."""
        while (waiting := next(filter(self._may_start, self._order()), None)) is not None:
            self._queue.remove(waiting)
            self._count(waiting.owner, 1)
            waiting.is_running = True
            waiting.started.set()

    def _leave(self, waiting: _Waiting) -> None:
        if waiting.is_running:
            self._count(waiting.owner, -1)
            self._running += Counter()  # forgets those at zero
            self._of_principals += Counter()
        else:
            self._queue.remove(waiting)
        self._give_places()

    def _may_start(self, waiting: _Waiting) -> bool:
        limits, session = waiting.limits, waiting.owner.session.session_id
        if 0 < limits.principal_programs <= self._of_principals[waiting.owner.principal]:
            return False
        are_others_active = bool((self._last_used.keys() | self.attached) - {session})
        kept = 1 if self._running[session] and are_others_active else 0
        return self._running.total() < limits.programs - kept

    def _note_use(self, session: Session) -> None:
        now = self.clock()
        self._last_used = {name: used for name, used in self._last_used.items() if now - used < _ACTIVE_SECONDS}
        if not session.is_ephemeral:  # else it ends with this request
            self._last_used[session.session_id] = now

    def _order(self) -> list[_Waiting]:
        return sorted(self._queue, key=lambda one: self._running[one.owner.session.session_id])
