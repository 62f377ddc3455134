"""Counts the calls of each principal, and those that rules with a limit have let through, for each or an execution."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from codemode_server.domain.calls import Deny
from codemode_server.domain.ids import PrincipalId
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.permission_settings import RuleLimit

_MAX_WINDOWS = 10_000
"""Counters of principals and rules; beyond it those are dropped whose time has passed."""


class Rates:
    """Used on the event loop only, so that calls at the same time can't exceed a limit. Lost with the product."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._windows: dict[tuple[PrincipalId, str], deque[float]] = {}
        """Principal and text of the rule → when each call that counts stops counting."""

    def seconds_until_free(self, calls: ExecutionCalls, rule: str, limit: RuleLimit) -> float | None:
        """None if the limit lets one more call through; infinite if it never does in this execution."""
        if limit.seconds is None:
            return None if calls.counted[rule] < limit.calls else float("inf")
        window = self._window(calls, rule)
        return None if len(window) < limit.calls else window[-limit.calls] - self._now()

    def count(self, calls: ExecutionCalls, rule: str, limit: RuleLimit) -> None:
        if limit.seconds is None:
            calls.counted[rule] += 1
            return
        window = self._window(calls, rule)
        window.append(self._now() + limit.seconds)
        self._windows[calls.context.principal.principal_id, rule] = window
        if len(self._windows) > _MAX_WINDOWS:
            self._drop_passed()

    def _window(self, calls: ExecutionCalls, rule: str) -> deque[float]:
        window = self._windows.get((calls.context.principal.principal_id, rule), deque())
        now = self._now()
        while window and window[0] <= now:
            window.popleft()
        return window

    def _drop_passed(self) -> None:
        now = self._now()
        self._windows = {key: window for key, window in self._windows.items() if window and window[-1] > now}


class CallQuota:
    """Holds each principal to `limits.calls_per_minute`; 0 is no limit."""

    def __init__(self, rates: Rates | None = None) -> None:
        self._rates = rates or Rates()

    def refusal(self, calls: ExecutionCalls, per_minute: int) -> Deny | None:
        """Why one more call is refused now; None if it is not."""
        if not per_minute:
            return None
        wait = self._rates.seconds_until_free(calls, _QUOTA, RuleLimit(per_minute, _MINUTE_S))
        if wait is None:
            return None
        return Deny(
            f"limits.calls_per_minute is {per_minute:,}; the next call is possible in {math.ceil(wait)} s", advice=""
        )

    def count(self, calls: ExecutionCalls, per_minute: int) -> None:
        """Count a call that is let through."""
        if per_minute:
            self._rates.count(calls, _QUOTA, RuleLimit(per_minute, _MINUTE_S))


_QUOTA = "limits.calls_per_minute"
_MINUTE_S = 60.0
