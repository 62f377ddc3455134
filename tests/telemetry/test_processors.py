"""No span leaves with a secret in it, whoever made it: mcp's have messages of upstreams in them.

The real SDK with an exporter in memory; the spans are made as mcp makes them.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings, StateSettings
from codemode_server.features.telemetry import spans
from codemode_server.features.telemetry.processors import Redacting
from codemode_server.support.redaction import Redactor

SECRET, PLAIN = "ghp_0123456789abcdef", "nothing to hide"
MCP = "mcp-python-sdk"


def exported(text: str, scope: str, payloads: Literal["all", "shapes"], **sections: Any) -> ReadableSpan:
    """A span with this text wherever a text can be."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    config = LiveConfig(Settings(state=StateSettings(payloads=payloads), **sections), Redactor(frozenset({SECRET})))
    provider.add_span_processor(Redacting(config))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    span = provider.get_tracer(scope).start_span(f"call {text}", attributes={"one": text, "more": [text, "x"], "n": 3})
    span.add_event(f"event {text}", {"inner": text})
    span.set_status(Status(StatusCode.ERROR, f"failed: {text}"))
    span.end()
    (found,) = exporter.get_finished_spans()
    return found


@pytest.mark.parametrize("scope", [spans.SCOPE, MCP])
@pytest.mark.parametrize(("text", "shown"), [(SECRET, "***"), (PLAIN, PLAIN)])
def test_a_secret_is_masked_wherever_it_stands_and_all_else_stays(text: str, shown: str, scope: str) -> None:
    span = exported(text, scope, "all")
    assert span.name == f"call {shown}"
    assert dict(span.attributes or {}) == {"one": shown, "more": (shown, "x"), "n": 3}
    assert [(it.name, dict(it.attributes or {})) for it in span.events] == [(f"event {shown}", {"inner": shown})]
    assert span.status.description == f"failed: {shown}"


@pytest.mark.parametrize("text", [SECRET, PLAIN])
@pytest.mark.parametrize(("scope", "has_text"), [(spans.SCOPE, True), (MCP, False)])
@pytest.mark.parametrize("why", ["shapes", "privacy"])
def test_messages_of_others_are_left_out_where_values_are(text: str, scope: str, has_text: bool, why: str) -> None:
    privacy = {"privacy": {"servers": {"people": "tokens"}}, "servers": {"people": {"command": "x"}}}
    span = exported(text, scope, "shapes") if why == "shapes" else exported(text, scope, "all", **privacy)
    assert (bool(span.events), span.status.description is not None) == (has_text, has_text)
    assert span.status.status_code is StatusCode.ERROR
    assert SECRET not in span.to_json()
