"""An OTLP/HTTP receiver on loopback, which decodes the spans and metrics that it gets."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.answering import Asked, answering

ATTEMPT = """def attempt(call, **arguments):
    try:
        call(**arguments)
    except ToolError:
        pass
"""
"""For programs of these tests: a call whose failure does not end the program."""
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_error: bool
    message: str
    links: tuple[str, ...]
    """Ids of the spans that it is linked with."""


@dataclass
class Collector:
    """An OTLP/HTTP receiver."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    raw: bytes = b""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers, in lowercase, of each request."""
    metrics: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    """The last values by name and by those of the labels, in the order of these; of a histogram the count."""

    @property
    def endpoint(self) -> str:
        return f"{self.url}/v1/traces"

    @property
    def metrics_endpoint(self) -> str:
        return f"{self.url}/v1/metrics"

    def take_metrics(self, body: bytes) -> None:
        request = ExportMetricsServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                data = getattr(metric, metric.WhichOneof("data"))
                self.metrics[metric.name] = {
                    tuple(item.value.string_value for item in sorted(point.attributes, key=lambda it: it.key)): (
                        point.count if metric.HasField("histogram") else getattr(point, point.WhichOneof("value"))
                    )
                    for point in data.data_points
                }

    def take(self, body: bytes) -> None:
        self.raw += body
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            about = {item.key: item.value.string_value for item in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    Span(
                        about["service.name"],
                        span.name,
                        KINDS[span.kind],
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes},
                        span.status.code == 2,
                        span.status.message,
                        tuple(link.span_id.hex() for link in span.links),
                    )
                    for span in scope.spans
                ]

    def one(self, name: str) -> Span:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def of_program(self, execution_id: str) -> tuple[Span, list[Span]]:
        """The span of an execution, and all of its trace."""
        (execution,) = [
            span
            for span in self.spans
            if span.name == "execution" and span.attributes["codemode.execution_id"] == execution_id
        ]
        return execution, [span for span in self.spans if span.trace_id == execution.trace_id]


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    """A collector that answers each request with this status."""
    collector = Collector()

    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        body = gzip.decompress(asked.body) if asked.headers.get("content-encoding") == "gzip" else asked.body
        collector.requests.append((asked.path, {name.lower(): value for name, value in asked.headers.items()}))
        (collector.take_metrics if asked.path.endswith("metrics") else collector.take)(body)
        return status, {"content-type": "application/x-protobuf"}, ExportTraceServiceResponse().SerializeToString()

    with answering(answer) as collector.url:
        yield collector
