"""The calls of an earlier run of an execution, for the program that runs again.

A program that runs again makes its calls again. Each is found by its `CallKey`, which does not depend on the order of
concurrent calls:

* A call that succeeded, or that its server answered with an error, is answered from the journal, and nothing is sent:
  an error does not say that nothing was done. Only a reading that failed last is sent again, since it may be what
  ended the program.
* A call that was sent and whose outcome is not known is sent again if it only reads. Of others a person, or
  `approvals.unknown`, says that it arrived, or that it is sent again, or gives it up; the first is recorded, and
  holds until the program fails.
* A call that was never sent (refused, invalid, waiting for a person) counts as not recorded.
* A call that is not recorded is new, and is sent. But if it may change something, and the program has not yet made
  again all calls of its earlier run that may have changed something, then it departs from that run: it may be one of
  those with other arguments, which must not be made twice. A person has to approve it. Concurrent calls may come in
  another order, so this is only said once nothing else of the program has been in flight for as long as it may take
  to make the next recorded call.
* Answers arrive in the order in which they arrived first (`AnswerOrder`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from codemode_server.calls.expected_calls import argument_differences, common_names, left_when_quiet, named
from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Decision,
    Deny,
    Recorded,
    ToolCall,
)
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.tools import Effect
from codemode_server.features.resume.answer_order import AnswerOrder
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.off_loop import is_large, run_sized

_UNKNOWN = (CallStatus.STARTED, CallStatus.TIMED_OUT, CallStatus.CANCELLED, CallStatus.UNKNOWN)
UnknownPolicy = Literal["ask", "retry", "skip", "fail"]


class ResumedCalls:
    """The recorded calls of one execution, and which of them it has made again. Used from one event loop."""

    def __init__(
        self,
        records: Sequence[CallRecord],
        *,
        effect_of: Callable[[str, str], Effect],
        unknown: UnknownPolicy,
        is_closed: bool = False,
        has_failed: bool = False,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`effect_of`: by the raw names of server and tool. `is_closed`: nothing is sent, so a call without a record
        fails. `has_failed`: the program did, perhaps by what a person entered. `redact` masks secrets in what a person
        is shown."""
        self._effect_of = effect_of
        self._unknown = unknown
        self.is_closed = is_closed
        self._asks_again = has_failed and unknown == "ask"
        self._redact = redact
        self.order = AnswerOrder(records)
        self._survived: set[int] = set()
        """Numbers of the calls after whose end the program made another one."""
        self.unanswered: dict[int, int] = {}
        """Numbers of the calls that an earlier run sent without an answer → their numbers in that run."""
        self.last_seq = max((record.call.seq for record in records), default=0)
        """The highest number of a recorded call."""
        # A later run may have made the same call again.
        self._records = {record.call.key: record for record in records if _was_sent(record)}
        self.waiting: Collection[CallKey] = {record.call.key for record in records if isinstance(record.decision, Ask)}
        later_start = 0.0  # of a call that the program made after it: one that waited for approval may start late
        for record in reversed(records):
            if record.ended_at is not None and record.ended_at < later_start:
                self._survived.add(record.call.seq)
            later_start = max(later_start, record.started_at)
        self._new: set[int] = set()
        """Numbers of the calls that have no record."""
        self._changed = ChangeSignal()

    def decision(self, call: ToolCall, effect: Effect, decided: Decision) -> Decision:
        """The decision on a call of the program, where `decided` is that of the policy."""
        record = self._records.pop(call.key, None)
        if record is None:
            self._new.add(call.seq)
        else:
            self._changed.notify()
        if isinstance(decided, Deny) and not self.is_closed:
            return decided
        if record is None:
            return Deny("the journal has no such call, and a replay sends none") if self.is_closed else decided
        outcome = record.outcome
        is_doubted = self._asks_again and isinstance(record.decision, Recorded)
        if outcome is None or outcome.status in _UNKNOWN or is_doubted:
            return self._of_unknown(call, record, effect, decided)
        is_repeatable = effect is Effect.READS and not self.is_closed
        if is_repeatable and outcome.status is CallStatus.FAILED and record.call.seq not in self._survived:
            return decided
        if record.unreadable is not None and outcome.status is CallStatus.SUCCEEDED:
            if is_repeatable:
                return decided
            return Deny(f"it succeeded in the earlier run as call {record.call.seq}, and {record.unreadable}")
        return Recorded(outcome, f"call {record.call.seq} of the earlier run", record.call.seq)

    def _of_unknown(self, call: ToolCall, record: CallRecord, effect: Effect, decided: Decision) -> Decision:
        if effect is Effect.READS and not self.is_closed:
            return decided
        self.unanswered[call.seq] = record.call.seq
        did = "was taken as arrived, and the program failed" if isinstance(record.decision, Recorded) else "sent this"
        reason = f"call {record.call.seq} of the earlier run {did}, and it is not known whether it arrived"
        match "fail" if self.is_closed else self._unknown:
            case "fail":
                return Deny(reason, "" if self.is_closed else "With approvals.unknown: ask, the user decides.")
            case "retry":
                return decided
            case "skip":
                outcome = CallOutcome(CallStatus.SUCCEEDED, 0.0)
                return Recorded(outcome, f"approvals.unknown: skip; {reason}", is_assumed=True)
        return Ask(reason, is_unanswered=True)

    @property
    def missing(self) -> list[CallRecord]:
        """The recorded calls that may have changed something and were not made again yet."""
        calls = self._records.values()
        return [it for it in calls if self._effect_of(it.call.server, it.call.tool) is not Effect.READS]

    def remarks(self) -> list[str]:
        """Lines for the model at the end of the run."""
        if not (missing := self.missing):
            return []
        return [f"the earlier run made calls that this one did not: {named(it.call for it in missing)}"]

    async def departure(self, call: ToolCall, has_others: Callable[[], bool]) -> Ask | None:
        """Approval needed for an unrecorded call that may change something and departs from the earlier run; None if it
        does not. `has_others` tells whether other calls of the program are in flight."""
        if call.seq not in self._new:
            return None
        missing = await left_when_quiet(
            lambda: self.missing,
            changed=self._changed,
            patience_s=lambda: self.order.patience,
            has_others=has_others,
        )
        if not missing:
            return None
        made = named(it.call for it in missing)
        return Ask(
            f"the program departs from its earlier run, which made {made} instead; it may do the same twice",
            await self._differences(call, missing),
        )

    async def _differences(self, call: ToolCall, missing: Sequence[CallRecord]) -> tuple[str, ...]:
        """How the arguments differ from those of the call of the same tool that has most of them."""
        tool = call.server, call.tool
        same = (it.call for it in missing if it.unreadable is None and (it.call.server, it.call.tool) == tool)
        nearest = max(same, key=lambda it: common_names(it.arguments, call.arguments), default=None)
        if nearest is None:
            return ()
        is_long = is_large(nearest.arguments) or is_large(call.arguments)
        lines = await run_sized(is_long, argument_differences, nearest.arguments, call.arguments, self._redact)
        return (f"compared with call {nearest.seq} of the earlier run:", *lines)


def _was_sent(record: CallRecord) -> bool:
    if not isinstance(record.decision, Allow | Recorded):
        return False
    return record.outcome is None or record.outcome.status.may_have_been_sent
