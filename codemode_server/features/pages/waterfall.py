"""Places the calls of an execution on a common time line. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codemode_server.domain.executions import CallRecord
from codemode_server.domain.history import ApprovalWait, CallRetry

WIDTH = 1_000
"""The time line, from the first to the last moment."""
_MIN_WIDTH = 3.0
MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Mark:
    """A wait for a person, or a moment at which a call was tried again. Places are parts of `WIDTH`."""

    left: float
    width: float
    ms: float
    """Length of the wait, or time from the start of the call to the moment."""
    words: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One call, without its wait for a person. Places are parts of `WIDTH`."""

    call: CallRecord
    depth: int
    """How many earlier calls were still under way when it began, at most `MAX_DEPTH`."""
    left: float
    width: float
    after_ms: float
    """From the start of the execution to that of the call."""
    lines: tuple[int, ...] = ()
    wait: Mark | None = None
    ticks: tuple[Mark, ...] = ()


def waterfall(
    calls: Sequence[CallRecord],
    waits: Mapping[int, ApprovalWait],
    retries: Mapping[int, Sequence[CallRetry]],
    lines: Mapping[tuple[str, str], Sequence[int]],
    *,
    began: float,
    ended: float,
) -> list[Bar]:
    """The calls in the order of their numbers. `lines`: of each raw server and tool. `ended`: now, while it runs."""
    starts = [*(it.began_at for it in calls), *(waits[it.call.seq].asked_at for it in calls if it.call.seq in waits)]
    began = min([began, *starts])
    ends = [_end(it, ended) for it in calls]
    span = max([ended, *ends]) - began or 1.0
    bars: list[Bar] = []
    under_way: list[float] = []
    for call, end in zip(calls, ends, strict=True):
        while under_way and under_way[0] <= call.began_at:
            heapq.heappop(under_way)
        depth = min(len(under_way), MAX_DEPTH)
        heapq.heappush(under_way, end)
        wait, start = None, call.began_at
        if (asked := waits.get(call.call.seq)) is not None:
            until = asked.answered_at if asked.answered_at is not None else ended
            start = min(max(start, until), end)
            place = _place(asked.asked_at, until, began, span)
            wait = Mark(*place, (until - asked.asked_at) * 1_000, asked.answer)
        bars.append(
            Bar(
                call,
                depth,
                *_place(start, end, began, span),
                (call.began_at - began) * 1_000,
                tuple(lines.get((call.call.server, call.call.tool), ())),
                wait,
                tuple(_tick(it, call, began, span) for it in retries.get(call.call.seq, ())),
            )
        )
    return bars


def _tick(retry: CallRetry, call: CallRecord, began: float, span: float) -> Mark:
    after_ms = retry.after_ms(call.began_at)
    at = call.began_at + after_ms / 1_000
    return Mark(*_place(at, at, began, span), after_ms, retry.reason.words)


def _end(call: CallRecord, now: float) -> float:
    if call.ended_at is not None:
        return max(call.ended_at, call.began_at)
    if call.outcome is not None:
        return call.started_at + call.outcome.milliseconds / 1_000
    return max(now, call.started_at)


def _place(start: float, end: float, began: float, span: float) -> tuple[float, float]:
    left = min((start - began) / span * WIDTH, WIDTH - _MIN_WIDTH)
    width = min(max((end - start) / span * WIDTH, _MIN_WIDTH), WIDTH - left)
    return round(left, 1), round(width, 1)
