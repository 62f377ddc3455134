"""Example 8, what a trace shows: the same program with its calls in the trace, and without them.

A program runs out of the model's sight, so its trace has to show what it called. `--no-mcp-tracing` leaves the calls
out: what remains says that a program ran, and nothing of what it did.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hosting import Example, run
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TASK = "Count the pending orders, and remember how many there are"

PROGRAM = """
from servers.memory import create_entities
from servers.orders import read_query

rows = read_query(query="SELECT count(*) AS pending FROM orders WHERE status = 'pending'")
pending = rows[0]["pending"]
create_entities(entities=[{"name": "pending orders", "entityType": "count", "observations": [str(pending)]}])
f"{pending} orders are pending"
"""


class Collector:
    """What a collector of OpenTelemetry's is, in small: it keeps the spans that it is sent."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/v1/traces"
        self.spans: list[Span] = []

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.spans += [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]

    def print_trees(self, name: str) -> None:
        """Prints each span of this name with all beneath it."""
        for root in [span for span in self.spans if span.name == name]:
            print(root.name)
            self._print_beneath(root, "")

    def _print_beneath(self, parent: Span, indent: str) -> None:
        beneath = [span for span in self.spans if span.parent_span_id == parent.span_id]
        for span in sorted(beneath, key=lambda it: it.start_time_unix_nano):
            is_last = span.end_time_unix_nano == max(it.end_time_unix_nano for it in beneath)
            milliseconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            print(f"{indent}{'└─' if is_last else '├─'} {span.name} ({milliseconds:.1f} ms)")
            self._print_beneath(span, indent + ("   " if is_last else "│  "))


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()


async def main(example: Example) -> None:
    for flag in ("", "--no-mcp-tracing"):
        with collecting() as collector:
            print(f"\ncodemode-server serve {flag}".rstrip())
            environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.address}
            async with example.session(*filter(None, [flag]), environment=environment) as session:
                await session.run("'ready'")  # exporters start beside the first program; from here on all is traced
                await session.run(PROGRAM, description=TASK)
            print()
            collector.print_trees("tools/call execute_code")


run(main)
