"""An upstream that takes part in tracing: writes the trace context that it was sent to `$TRACED_LOG`, and exports spans
of its own to `$TRACED_OTLP` if that is set. Serves stdio, or HTTP on the port that it is given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

server = MCPServer("traced", log_level="CRITICAL")
if endpoint := os.environ.get("TRACED_OTLP"):
    provider = TracerProvider(resource=Resource.create({"service.name": "upstream"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=2)))
    trace.set_tracer_provider(provider)


@server.tool()
def echo(text: str, ctx: Context) -> str:
    """Give the text back."""
    with Path(os.environ["TRACED_LOG"]).open("a") as log:
        meta = ctx.request_context.meta or {}
        log.write(json.dumps({name: meta.get(name) for name in ("traceparent", "tracestate", "baggage")}) + "\n")
    with trace.get_tracer("upstream").start_as_current_span("look up"):
        return text


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
