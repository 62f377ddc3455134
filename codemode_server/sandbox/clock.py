"""Two budgets of time, of which one runs: the program's own, or, while a call is on its way, the upstreams'.

Neither runs while every call that is on its way waits for the host's person or model, which has a limit of its own."""

from __future__ import annotations

import math
from collections.abc import Callable


class ProgramClock:
    def __init__(self, wall_seconds: float, upstream_seconds: float, now: Callable[[], float]) -> None:
        self._limits = (wall_seconds, upstream_seconds)
        self._now = now
        self._spent = [0.0, 0.0]
        self._in_flight = 0
        self._waiting = 0
        self._since = now()

    def call_started(self) -> None:
        self._count()
        self._in_flight += 1

    def call_ended(self) -> None:
        self._count()
        self._in_flight -= 1

    def set_waiting(self, calls: int) -> None:
        self._count()
        self._waiting = calls

    @property
    def deadline(self) -> float:
        """When the budget that runs is spent, if nothing changes; infinity if none runs."""
        running = self._in_flight > 0
        if 0 < self._in_flight <= self._waiting:
            return math.inf
        return self._since + self._limits[running] - self._spent[running]

    @property
    def spent_setting(self) -> str:
        return ("limits.wall_seconds", "limits.upstream_seconds")[self._in_flight > 0]

    @property
    def program_s(self) -> float:
        self._count()
        return self._spent[0]

    @property
    def upstream_s(self) -> float:
        self._count()
        return self._spent[1]

    def _count(self) -> None:
        now = self._now()
        if not 0 < self._in_flight <= self._waiting:
            self._spent[self._in_flight > 0] += now - self._since
        self._since = now
