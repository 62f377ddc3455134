"""Limits of permission rules and of the whole product: how many calls go through in a time or an execution.

A call counts once, when it is let through: for the limits of its execution after the check of its arguments and the
answer of a person, for rate limits in the transaction that records it. While a person is asked about it, and until it
counts, it is reserved in each. A call that an earlier run made, or that is not sent, has to do with the limits of its
execution alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from codemode_server.calls.policy.policy import Policy
from codemode_server.config.live import LiveConfig
from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.calls import Allow, Ask, Deny, Recorded
from codemode_server.domain.ids import PrincipalId

if TYPE_CHECKING:
    from codemode_server.calls.kernel import Call
    from codemode_server.storage.journal import Journal

_QUOTA = "limits.calls_per_minute"


class Limits:
    """Used on the event loop only, so that calls at the same time can't exceed a limit of their execution. What rate
    limits have let through is in the database, for all products that use it. Reservations are known to this product
    alone, so another one may ask a person about a call that is refused in the end."""

    def __init__(self, config: LiveConfig, policy: Policy, journal: Journal) -> None:
        self._config = config
        self._policy = policy
        self._journal = journal
        self._reserved: defaultdict[PrincipalId, Counter[str]] = defaultdict(Counter)
        """Principal → rate limit → calls that are reserved in it."""

    async def reserve(self, call: Call) -> None:
        """Deny a call that exceeds a limit; another one is reserved in each, until it counts or `release` is called."""
        limits = self._limits(call)
        denied = self._denied(call, limits)
        if denied is None:
            for it in limits:
                if it.name not in call.reservations:
                    call.reservations[it.name] = self._taken(call, it)
                    call.reservations[it.name][it.name] += 1
            if rates := [self._left(call, it) for it in limits if it.seconds is not None]:
                denied = await self._journal.limit_reached(rates)
        if denied is not None:
            call.decision = denied

    def release(self, call: Call) -> None:
        """End the reservations of a call."""
        for name, taken in call.reservations.items():
            taken[name] -= 1
        call.reservations.clear()

    def count(self, call: Call) -> None:
        """Deny a call that exceeds a limit of its execution; another one counts, and is to be recorded with
        `uncounted`."""
        limits = self._limits(call)
        call.limits = [it for it in limits if it.seconds is not None]
        of_execution = [it for it in limits if it.seconds is None]
        if not isinstance(call.decision, Recorded) and (denied := self._denied(call, of_execution)) is not None:
            call.decision = denied
            return
        for it in of_execution:
            if call.reservations.pop(it.name, None) is None:
                call.calls.counted[it.name] += 1
            call.counted.add(it.name)

    def uncounted(self, call: Call) -> list[CallLimit]:
        """The rate limits that have not counted a call which is to be sent, with the calls that others leave."""
        return [self._left(call, it) for it in call.limits if it.name not in call.counted]

    def _limits(self, call: Call) -> list[CallLimit]:
        """Those that count a call if it goes through and have not counted it, which it may pass again after an edit."""
        per_minute = self._config.settings.limits.calls_per_minute
        if isinstance(call.decision, Deny) or not (per_minute or self._policy.has_limits):
            return []
        principal, is_sent = call.calls.caller.principal.principal_id, isinstance(call.decision, Allow | Ask)
        arguments = [call.arguments] if call.values is None else [call.arguments, call.values.arguments]
        matching = [it for one in arguments if (it := self._policy.rule(call.calls, call.target, one)) is not None]
        limits: dict[str, CallLimit] = {}
        for rule in matching:
            if rule.limit is not None:
                name, reason = rule.settings.counted_as, f"{rule.source}: its limit of {rule.settings.limit} is reached"
                limits[name] = CallLimit(principal, name, rule.limit.calls, rule.limit.seconds, reason)
        if per_minute:
            limits[_QUOTA] = CallLimit(principal, _QUOTA, per_minute, 60.0, f"{_QUOTA} is {per_minute:,}")
        return [it for it in limits.values() if it.name not in call.counted and (is_sent or it.seconds is None)]

    def _denied(self, call: Call, limits: list[CallLimit]) -> Deny | None:
        """The decision on a call that exceeds one of them; None if it exceeds none, as far as is known here."""
        return next((it.denied(math.inf) for it in limits if self._left(call, it).calls < 1), None)

    def _left(self, call: Call, limit: CallLimit) -> CallLimit:
        """A limit with the calls that are left by other calls: those of its execution, or those that are reserved."""
        return replace(
            limit, calls=limit.calls - self._taken(call, limit)[limit.name] + (limit.name in call.reservations)
        )

    def _taken(self, call: Call, limit: CallLimit) -> Counter[str]:
        return call.calls.counted if limit.seconds is None else self._reserved[limit.principal]
