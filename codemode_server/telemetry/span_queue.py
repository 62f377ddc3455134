"""A bounded queue of ended spans in front of one exporter, which a thread of its own empties.

An exporter that is slow, down or refuses costs a program nothing: the queue takes a span or drops it at once, counts
what was dropped and why, and logs that once a minute at the most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from codemode_server.telemetry import spans

if TYPE_CHECKING:
    from codemode_server.telemetry.failure_reasons import Reason

logger = logging.getLogger(__name__)

MAX_SPANS = 2_048
"""Spans that wait; more are dropped."""
MAX_BYTES = 16 * 2**20
"""Bytes of text in their attributes: with `state.payloads: all` a span may have 32 KiB."""
_BATCH_SPANS = 512
_DELAY_SECONDS = 1.0
"""How long a span waits for others, so that one request takes many."""
_LOG_SECONDS = 60.0
QUEUE_FULL, ENDED = "the queue was full", "the product ended"


class SpanQueue:
    """The way to one exporter. `name` is for messages, `reason` says why the last export failed; `on_drop` is called
    with the name and all that was dropped when that is logged."""

    def __init__(
        self,
        name: str,
        exporter: SpanExporter,
        reason: Reason = lambda: "the exporter failed",
        *,
        on_drop: Callable[[str, Mapping[str, int]], None] = lambda _name, _dropped: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._exporter = exporter
        self._reason = reason
        self._on_drop = on_drop
        self._clock = clock
        self._waiting: deque[tuple[ReadableSpan, int]] = deque()
        self._bytes = 0
        self._in_export = 0
        self._dropped: Counter[str] = Counter()
        self._logged_at, self._logged = -_LOG_SECONDS, 0
        self._is_failing = self._is_ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"spans to {name}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many spans were dropped, by reason."""
        with self._changed:
            return dict(self._dropped)

    def put(self, span: ReadableSpan) -> None:
        """Queue a span, or drop it if there is no room."""
        size = _size(span)
        with self._changed:
            if self._is_ending:
                self._dropped[ENDED] += 1
            elif len(self._waiting) >= MAX_SPANS or self._bytes + size > MAX_BYTES:
                self._dropped[QUEUE_FULL] += 1
            else:
                self._waiting.append((span, size))
                self._bytes += size
                if len(self._waiting) == _BATCH_SPANS:
                    self._changed.notify_all()

    def end(self, seconds: float) -> None:
        """Send what waits; what could not be sent in time is dropped."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(seconds)
        with self._changed:
            unsent = len(self._waiting) + self._in_export
            self._waiting.clear()
            if unsent:
                self._dropped[ENDED] += unsent
        self._report(is_last=True)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_ending or len(self._waiting) >= _BATCH_SPANS, _DELAY_SECONDS)
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH_SPANS))]
                self._bytes -= sum(size for _, size in taken)
                self._in_export = len(taken)
                if self._is_ending and not taken:
                    return
            if taken:
                problem = self._export([span for span, _ in taken])
                with self._changed:
                    self._in_export = 0
                    if problem is not None:
                        self._dropped[problem] += len(taken)
                self._note(is_failing=problem is not None)
            self._report()

    def _export(self, batch: Sequence[ReadableSpan]) -> str | None:
        """Send a batch; why that failed."""
        try:
            return None if self._exporter.export(batch) is SpanExportResult.SUCCESS else self._reason()
        except Exception as error:  # noqa: BLE001 - an exporter is the code of others, and must not end the thread
            return type(error).__name__

    def _note(self, *, is_failing: bool) -> None:
        if self._is_failing and not is_failing:
            logger.info("traces go to %s again", self.name)
        self._is_failing = is_failing

    def _report(self, *, is_last: bool = False) -> None:
        dropped, now = self.dropped, self._clock()
        count = sum(dropped.values())
        if count == self._logged or (now - self._logged_at < _LOG_SECONDS and not is_last):
            return
        self._logged_at, self._logged = now, count
        reasons = ", ".join(f"{reason}: {number:,}" for reason, number in dropped.items())
        said = "1 span was" if count == 1 else f"{count:,} spans were"
        logger.warning("traces to %s: %s dropped so far (%s)", self.name, said, reasons)
        self._on_drop(self.name, dropped)


class QueueProcessor(SpanProcessor):
    """Queues the sampled spans of this process that are to be exported."""

    def __init__(self, queue: SpanQueue, is_exported: Callable[[ReadableSpan], bool]) -> None:
        self._queue = queue
        self._is_exported = is_exported

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled and self._is_exported(span):
            self._queue.put(span)


class QueueExporter(SpanExporter):
    """Queues what a span processor of others exports, which has a queue of its own that counts nothing."""

    def __init__(self, queue: SpanQueue) -> None:
        self._queue = queue

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            self._queue.put(span)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held here."""


def is_request_to_upstream(span: ReadableSpan) -> bool:
    """Whether it is one of those that mcp's client makes."""
    scope = span.instrumentation_scope
    return scope is not None and scope.name == "mcp-python-sdk" and span.kind is SpanKind.CLIENT


def _size(span: ReadableSpan) -> int:
    """Characters of what may be long."""
    attributes = span.attributes or {}
    return sum(len(str(attributes.get(name, ""))) for name in spans.LONG)
