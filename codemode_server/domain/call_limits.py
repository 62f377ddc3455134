"""A limit on calls as a value. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codemode_server.domain.calls import Deny
from codemode_server.domain.ids import PrincipalId


@dataclass(frozen=True, slots=True)
class CallLimit:
    """How many calls of one principal go through within a time, or within one execution."""

    principal: PrincipalId
    name: str
    """Stays after an edit of other limits or of its number."""
    calls: int
    seconds: float | None
    """Within this time; None: within one execution."""
    reason: str
    """What is said of a call beyond it."""

    def denied(self, wait: float) -> Deny:
        """The decision on a call that exceeds it. `wait`: seconds until the next one goes through; infinite if none
        does before an execution or a question to a person has ended."""
        return Deny(f"{self.reason}; {self._next_in(wait)}", advice="")

    def _next_in(self, wait: float) -> str:
        if not math.isinf(wait):
            return f"the next call is possible in {math.ceil(wait)} s"
        if self.seconds is None:
            return "the next call is possible in another program"
        return "the user is being asked about the calls that it lets through"
