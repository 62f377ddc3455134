"""The plan of a dry run: the calls that it captured, and how the calls of the applied program differ from them.

A call that may change something is as planned if the plan has one with the same server, tool and arguments, all of
which were foreseen, and no earlier planned call of the same server is still to come. About any other the person is
asked: arguments that derive from a placeholder, other arguments, a call that is not in the plan, another order on one
server. Calls at the same time may come in any order, so a departure in the order is only said once nothing else of the
program has been in flight for `MIN_PATIENCE_SECONDS`. Calls that only read are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codemode_server.calls.expected_calls import (
    MIN_PATIENCE_SECONDS,
    argument_differences,
    common_names,
    differing_names,
    left_when_quiet,
    named,
)
from codemode_server.domain.calls import Ask, CallStatus, Capture, Deny, ToolCall
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.features.dry_run.placeholders import DESTROYING, UNSTATED_EFFECT, calls_in, without_numbers
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.text import clean_line, counted, first_few

_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call that a dry run captured or refused."""

    call: ToolCall
    sources: Mapping[str, frozenset[int]]
    """The arguments that derive from placeholders, and the numbers of the calls that these stand for."""
    asks: str = ""
    """Why a person is asked about it anyway."""
    refused: str = ""
    """Why the permissions refuse it."""
    is_reading: bool = False
    """True if it only reads, and was captured since its arguments could not be foreseen."""
    is_unstated: bool = False
    """True if it was captured since its server does not say what the tool does."""
    destroys: bool = False
    """True if its tool may destroy what it changes."""
    is_unreadable: bool = False

    @property
    def is_foreseen(self) -> bool:
        return not self.sources and not self.is_unreadable


def planned_calls(records: Sequence[CallRecord]) -> list[PlannedCall]:
    """The calls of a dry run that were captured or refused, in order."""
    captured = {it.call.seq for it in records if isinstance(it.decision, Capture)}
    return [found for it in records if (found := _planned(it, captured)) is not None]


def _planned(record: CallRecord, captured: set[int]) -> PlannedCall | None:
    call, is_unreadable = record.call, record.unreadable is not None
    match record.decision:
        case Deny(reason=reason):
            return PlannedCall(call, {}, refused=reason, is_unreadable=is_unreadable)
        case Capture(reason=reason, asks=asks, is_reading=is_reading):
            if record.outcome is not None and record.outcome.status is not CallStatus.CAPTURED:
                return None  # its arguments were wrong
            found = {name: calls_in({name: value}) & captured for name, value in call.arguments.items()}
            sources = {name: calls for name, calls in found.items() if calls}
            is_unstated, destroys = reason == UNSTATED_EFFECT, reason == DESTROYING
            return PlannedCall(call, sources, asks, "", is_reading, is_unstated, destroys, is_unreadable)
    return None


class Plan:
    """The planned calls that the program which is applied has not made yet. Used from one event loop."""

    def __init__(
        self, dry_run_id: ExecutionId, records: Sequence[CallRecord], *, redact: Callable[[str], str] = str
    ) -> None:
        """`redact` masks secrets in what a person is shown."""
        self.dry_run_id = dry_run_id
        self._redact = redact
        self._left = [it for it in planned_calls(records) if not it.is_reading and not it.refused]
        self._total, self._as_planned = len(self._left), 0
        self._passed: set[int] = set()
        """Numbers of planned calls that later ones were approved before."""
        self._changed = ChangeSignal()

    def take(self, call: ToolCall) -> PlannedCall | None:
        """Take the planned call that this one is; None if there is none with the same arguments."""
        digest = call.key.arguments_digest
        same = (it for it in self._of_tool(call) if it.is_foreseen and it.call.key.arguments_digest == digest)
        found = self._taken(next(same, None))
        self._as_planned += found is not None
        return found

    def take_replayed(self, call: ToolCall) -> None:
        """Take the planned call that the applied program has used up by this one, which it made before it was resumed:
        the same, or that which the person has approved this one in place of."""
        if self.take(call) is None:
            self._taken(self._replaced(call))

    async def departure(self, call: ToolCall, has_others: Callable[[], bool]) -> Ask | None:
        """Approval needed for a call that may change something; None if it is as planned. `has_others` tells whether
        other calls of the program are in flight."""
        if (planned := self.take(call)) is not None:
            return await self._order(planned, has_others)
        if (found := self._replaced(call)) is not None and _may_be(found, call):
            names = _names(found.sources) if found.sources else "its arguments"
            reason = f"the plan of {self.dry_run_id} could not foresee {names}"
        elif found is not None:
            differing = _names(differing_names(found.call.arguments, call.arguments))
            reason = f"it departs from the plan of {self.dry_run_id}, which has other arguments: {differing}"
        else:
            reason = f"it departs from the plan of {self.dry_run_id}, which has no such call, or none that is left"
        self._taken(found)
        if found is None or found.is_unreadable:
            return Ask(reason)
        planned_arguments = {name: without_numbers(value) for name, value in found.call.arguments.items()}
        return Ask(reason, tuple(argument_differences(planned_arguments, call.arguments, self._redact)))

    def remarks(self) -> list[str]:
        """Lines for the model at the end of the run."""
        if not self._total:
            return []
        left = f"; not made: {named(it.call for it in self._left)}" if self._left else ""
        return [
            f"{self._as_planned} of {counted(self._total, 'call')} made as the plan of {self.dry_run_id} has them{left}"
        ]

    async def _order(self, planned: PlannedCall, has_others: Callable[[], bool]) -> Ask | None:
        earlier = await left_when_quiet(
            lambda: self._earlier(planned),
            changed=self._changed,
            patience_s=lambda: MIN_PATIENCE_SECONDS,
            has_others=has_others,
        )
        if not earlier:
            return None
        self._passed.update(it.call.seq for it in earlier)
        before = named(it.call for it in earlier)
        return Ask(f"it departs from the plan of {self.dry_run_id}, which makes {before} before it")

    def _earlier(self, planned: PlannedCall) -> list[PlannedCall]:
        """Those of the same server that the plan makes first and the program has not made."""
        return [
            it
            for it in self._left
            if it.call.seq < planned.call.seq
            and it.call.server == planned.call.server
            and it.call.seq not in self._passed
        ]

    def _of_tool(self, call: ToolCall) -> list[PlannedCall]:
        return [it for it in self._left if (it.call.server, it.call.tool) == (call.server, call.tool)]

    def _replaced(self, call: ToolCall) -> PlannedCall | None:
        """The planned call that this one, which is not as planned, takes the place of."""
        unforeseen = (it for it in self._of_tool(call) if _may_be(it, call))
        return next(unforeseen, None) or max(
            self._of_tool(call), key=lambda it: common_names(it.call.arguments, call.arguments), default=None
        )

    def _taken(self, found: PlannedCall | None) -> PlannedCall | None:
        if found is not None:
            self._left.remove(found)
            self._changed.notify()
        return found


def _may_be(planned: PlannedCall, call: ToolCall) -> bool:
    """True if this is the planned call, as far as its arguments could be foreseen."""
    if planned.is_foreseen:
        return False
    if planned.is_unreadable:
        return True
    before, now = planned.call.arguments, call.arguments
    return before.keys() == now.keys() and set(differing_names(before, now)) <= set(planned.sources)


def _names(names: Iterable[str]) -> str:
    return first_few([clean_line(name, 40) for name in names], _MAX_NAMES)
