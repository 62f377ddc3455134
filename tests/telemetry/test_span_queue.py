"""Exporters that are lost or slow cost a program nothing; what is dropped is counted, by reason, and logged.

The product as a child process beside a collector that hangs, refuses or fails; the bounds of the queue with an exporter
that waits for the test.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from codemode_server.telemetry import span_queue
from codemode_server.telemetry.span_queue import QUEUE_FULL, QueueProcessor, SpanQueue
from tests.behaviour.product import configuration, office, over_stdio
from tests.telemetry.collector import collecting

CALLS = "from servers.github import list_issues\n" + "list_issues(repo='b')\n" * 50 + "7"


@contextmanager
def refusing() -> Iterator[int]:
    """A port that nobody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def hanging() -> Iterator[int]:
    """A port on which somebody listens and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@contextmanager
def failing() -> Iterator[int]:
    """A collector that answers 500, with a text that has no business in a log."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(500, "canary", "canary")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


@contextmanager
def working() -> Iterator[int]:
    with collecting() as collector:
        yield collector.port


@pytest.mark.parametrize(
    ("collector", "reason"),
    [(working, ""), (failing, "HTTP 500"), (refusing, "the product ended"), (hanging, "the product ended")],
)
async def test_a_collector_that_is_lost_costs_a_program_nothing_and_the_log_says_how_many_spans_it_missed(
    tmp_path: Path, collector: Any, reason: str
) -> None:
    with collector() as port:
        tracing = {"otlp_endpoint": f"http://127.0.0.1:{port}/v1/traces"}
        path = configuration(tmp_path, office(tmp_path, "github"), tracing=tracing)
        async with over_stdio(path) as host:
            await host.run("1")
            began = time.monotonic()
            answer = await host.run(CALLS)
            took, began = time.monotonic() - began, time.monotonic()
        ended = time.monotonic() - began
    assert answer.value == 7
    assert took < 10
    assert ended < 8
    log = (tmp_path / "state" / "logs" / "codemode.log").read_text()
    dropped = [line for line in log.splitlines() if "dropped so far" in line]
    assert "Traceback" not in log
    assert "canary" not in log
    assert len(dropped) <= 2
    assert bool(dropped) == bool(reason)
    assert reason in "".join(dropped)


class Gate(SpanExporter):
    """Lets exports through when the test says so."""

    def __init__(self) -> None:
        self.is_open, self.has_begun = threading.Event(), threading.Event()
        self.exported: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.has_begun.set()
        self.is_open.wait(10)
        self.exported += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held here."""


def make_spans(queue: SpanQueue, count: int, text: str = "") -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(QueueProcessor(queue, lambda _: True))
    tracer = provider.get_tracer("test")
    for _ in range(count):
        tracer.start_span("one", attributes={"langfuse.observation.input": text}).end()


def filled(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> SpanQueue:
    """A queue whose exporter has taken a first span and waits."""
    monkeypatch.setattr(span_queue, "_DELAY_SECONDS", 0.01)
    queue = SpanQueue("test", gate)
    make_spans(queue, 1)
    assert gate.has_begun.wait(10)
    return queue


@pytest.mark.parametrize("beyond", [0, 3])
def test_a_full_queue_drops_what_comes_and_counts_it(monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    gate = Gate()
    queue = filled(monkeypatch, gate)
    make_spans(queue, span_queue.MAX_SPANS + beyond)
    assert queue.dropped == ({QUEUE_FULL: beyond} if beyond else {})
    gate.is_open.set()
    queue.end(10)
    assert len(gate.exported) == 1 + span_queue.MAX_SPANS


@pytest.mark.parametrize("beyond", [0, 3])
def test_long_texts_fill_the_queue_before_many_spans_do(monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    gate, text = Gate(), "x" * 2**20
    queue = filled(monkeypatch, gate)
    make_spans(queue, span_queue.MAX_BYTES // len(text) + beyond, text)
    assert queue.dropped == ({QUEUE_FULL: beyond} if beyond else {})
    gate.is_open.set()
    queue.end(10)


def test_an_end_in_time_sends_all_and_one_that_is_not_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    queue = filled(monkeypatch, gate)
    make_spans(queue, 5)
    began = time.monotonic()
    queue.end(0.05)
    assert time.monotonic() - began < 5
    assert queue.dropped == {span_queue.ENDED: 6}
    gate.is_open.set()


def test_the_log_names_exporter_count_and_reason_once_a_minute_and_then_the_recovery(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(span_queue, "_DELAY_SECONDS", 0.01)
    results = [SpanExportResult.FAILURE, SpanExportResult.FAILURE, SpanExportResult.SUCCESS]
    exported = threading.Semaphore(0)

    class Failing(Gate):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = results.pop(0)
            exported.release()
            return result

    queue = SpanQueue("test", Failing(), lambda: "HTTP 500 Internal Server Error")
    for count in (1, 2, 4):
        make_spans(queue, count)
        assert exported.acquire(timeout=10)
    queue.end(10)
    assert [record.getMessage() for record in caplog.records] == [
        "traces to test: 1 span was dropped so far (HTTP 500 Internal Server Error: 1)",
        "traces go to test again",
        "traces to test: 3 spans were dropped so far (HTTP 500 Internal Server Error: 3)",
    ]
