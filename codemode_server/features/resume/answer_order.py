"""The order in which the answers to a program's calls arrived in its earlier run, for the program that runs again.

A program with tasks or threads goes on as answers arrive, so it behaves as before only if they arrive in the order that
the journal has. An answer therefore waits until every answer that arrived before it has arrived again. One that has not
arrived in the earlier run comes after all of these.

A program that takes another way may never make the call whose answer is next. It is given twice the time that it took
in the earlier run to make that call, and a second; after that, answers arrive as they come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

import anyio

from codemode_server.calls.expected_calls import MIN_PATIENCE_SECONDS
from codemode_server.domain.calls import CallKey, CallStatus
from codemode_server.domain.executions import CallRecord
from codemode_server.support.change_signal import ChangeSignal

_MAX_PAUSE_SECONDS = 30.0
"""A call may have been recorded long after the one before it, for instance since a person was asked about it."""
_UNANSWERED = (CallStatus.CANCELLED, CallStatus.UNSENT)


class AnswerOrder:
    """The answers of one execution that have not arrived again yet. Used from one event loop."""

    def __init__(self, records: Sequence[CallRecord]) -> None:
        answered: dict[CallKey, tuple[float, float]] = {}
        """When each answer arrived, and when its call was recorded."""
        for record in records:
            is_answered = record.outcome is not None and record.outcome.status not in _UNANSWERED
            if is_answered and record.ended_at is not None:
                # If several runs made the call, its answer had the place that it has in the first one in all of them.
                answered.setdefault(record.call.key, (record.ended_at, record.started_at))
        times = sorted({it.started_at for it in records} | {it.ended_at for it in records if it.ended_at is not None})
        in_order = sorted(answered.items(), key=lambda it: it[1])
        self._expected = OrderedDict((key, _pause(times, started_at)) for key, (_, started_at) in in_order)
        """The calls whose answers have not arrived again → seconds that the program took to make each."""
        self._made: set[CallKey] = set()
        self._changed = ChangeSignal()

    def note_made(self, key: CallKey) -> None:
        self._made.add(key)
        self._note_change()

    @property
    def patience(self) -> float:
        """How many seconds the program may take to make the next call that is expected."""
        key = next((it for it in self._expected if it not in self._made), None)
        return MIN_PATIENCE_SECONDS + 2 * (self._expected[key] if key is not None else 0.0)

    async def wait(self, key: CallKey) -> None:
        """Wait until it is this call's turn to be answered."""
        while (expected := next(iter(self._expected), key)) != key:
            if expected in self._made:
                await self._changed.wait()
                continue
            with anyio.move_on_after(self.patience) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught:
                self._expected.clear()
                self._note_change()

    def note_answered(self, key: CallKey) -> None:
        """The program gets the answer to this call now."""
        if self._expected.pop(key, None) is not None:
            self._note_change()

    def _note_change(self) -> None:
        self._changed.notify()


def _pause(times: Sequence[float], started_at: float) -> float:
    """The seconds between the start of a call and the last start or answer before it."""
    place = bisect_left(times, started_at)
    return min(started_at - times[place - 1], _MAX_PAUSE_SECONDS) if place else 0.0
