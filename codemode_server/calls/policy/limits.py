"""Limits of permission rules and of the whole product: how many calls go through in a time or an execution.

A call counts once, when it is let through: after the check of its arguments and the answer of a person. While a person
is asked about it, it counts for that time. A call that an earlier run made, or that is not sent, has to do with the
limits of its execution alone.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.policy import Policy
from codemode_server.calls.policy.settings import RuleLimit
from codemode_server.calls.targets import CallTarget
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Decision, Deny, Recorded
from codemode_server.domain.ids import PrincipalId

_MAX_WINDOWS = 10_000
"""Counters of principals and rules; beyond it those are dropped whose time has passed."""
_QUOTA = "limits.calls_per_minute"
CountingLimit = tuple[str, RuleLimit]
"""A limit and its name, which stays after an edit of other rules or of its number."""


class Limits:
    """Used on the event loop only, so that calls at the same time can't exceed a limit. Lost with the product."""

    def __init__(self, config: LiveConfig, policy: Policy, *, now: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._policy = policy
        self._now = now
        self._windows: dict[tuple[PrincipalId, str], deque[float]] = {}
        """Principal and limit → when each call stops counting, in order; infinite while a person is asked about it."""

    def decision(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        arguments: Sequence[dict[str, Any]],
        decided: Decision,
        counted: set[str],
    ) -> tuple[Decision, list[CountingLimit]]:
        """The decision on a call, where `decided` is that of rules and layers, and the limits that count it if it goes
        through. `arguments`: as the program gave them, and as they are sent if that differs. `counted`: the limits that
        have counted the call, which it may pass again after an edit."""
        per_minute = self._config.settings.limits.calls_per_minute
        if isinstance(decided, Deny) or not (per_minute or self._policy.has_limits):
            return decided, []
        is_sent = isinstance(decided, Allow | Ask)
        limits: list[CountingLimit] = []
        matching = [it for one in arguments if (it := self._policy.rule(calls, target, one)) is not None]
        rules = {it.settings.counted_as: it for it in matching}
        for name, rule in rules.items():
            if (limit := rule.limit) is None or name in counted or not (is_sent or limit.seconds is None):
                continue
            limits.append((name, limit))
            wait = None if isinstance(decided, Recorded) else self._seconds_until_free(calls, name, limit)
            if wait is not None:
                reason = f"{rule.source}: its limit of {rule.settings.limit} is reached"
                return Deny(f"{reason}; {_next_in(wait, limit)}", advice=""), []
        if is_sent and per_minute and _QUOTA not in counted:
            limits.append((_QUOTA, RuleLimit(per_minute, 60.0)))
            if (wait := self._seconds_until_free(calls, *limits[-1])) is not None:
                return Deny(f"{_QUOTA} is {per_minute:,}; {_next_in(wait, limits[-1][1])}", advice=""), []
        return decided, limits

    def count(self, calls: ExecutionCalls, limits: Sequence[CountingLimit], counted: set[str]) -> None:
        """A call goes through; those that count it are added to `counted`."""
        for name, limit in limits:
            self._count(calls, name, limit, self._now() + (limit.seconds or 0.0))
            counted.add(name)

    @contextmanager
    def reserved(self, calls: ExecutionCalls, limits: Sequence[CountingLimit]) -> Iterator[None]:
        """A person is asked about a call within, which counts for that time."""
        for name, limit in limits:
            self._count(calls, name, limit, math.inf)
        try:
            yield
        finally:
            for name, limit in limits:
                if limit.seconds is None:
                    calls.counted[name] -= 1
                else:
                    self._window(calls, name).remove(math.inf)

    def _seconds_until_free(self, calls: ExecutionCalls, rule: str, limit: RuleLimit) -> float | None:
        """None if the limit lets one more call through; infinite if it never does in this execution."""
        if limit.seconds is None:
            return None if calls.counted[rule] < limit.calls else float("inf")
        window = self._window(calls, rule)
        return None if len(window) < limit.calls else window[-limit.calls] - self._now()

    def _count(self, calls: ExecutionCalls, rule: str, limit: RuleLimit, until: float) -> None:
        if limit.seconds is None:
            calls.counted[rule] += 1
            return
        window = self._window(calls, rule)
        insort(window, until)
        self._windows[calls.caller.principal.principal_id, rule] = window
        if len(self._windows) > _MAX_WINDOWS:
            self._drop_passed()

    def _window(self, calls: ExecutionCalls, rule: str) -> deque[float]:
        window = self._windows.get((calls.caller.principal.principal_id, rule), deque())
        now = self._now()
        while window and window[0] <= now:
            window.popleft()
        return window

    def _drop_passed(self) -> None:
        now = self._now()
        self._windows = {key: window for key, window in self._windows.items() if window and window[-1] > now}


def _next_in(wait: float, limit: RuleLimit) -> str:
    if not math.isinf(wait):
        return f"the next call is possible in {math.ceil(wait)} s"
    if limit.seconds is None:
        return "the next call is possible in another program"
    return "the user is being asked about the calls that it lets through"
