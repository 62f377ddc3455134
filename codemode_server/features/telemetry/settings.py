"""The sections `tracing` and `metrics` of `upstream.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from codemode_server.mcp_server.http_settings import PrincipalName
from codemode_server.support.setting_types import FeatureSettings, Holds, Number, Section

if TYPE_CHECKING:
    from codemode_server.config.settings import Settings


class LangfuseSettings(Section):
    """Access to Langfuse, if traces go there; the usual LANGFUSE_* environment variables work as well."""

    public_key: Annotated[str | None, Holds.SECRET] = Field(default=None, repr=False)
    """`pk-lf-…`; default: `LANGFUSE_PUBLIC_KEY`."""
    secret_key: Annotated[str | None, Holds.SECRET] = Field(default=None, repr=False)
    """`sk-lf-…`; default: `LANGFUSE_SECRET_KEY`."""
    base_url: Annotated[str | None, Holds.ADDRESS] = Field(default=None, repr=False)
    """Default: `LANGFUSE_BASE_URL`, else Langfuse's cloud."""


class TracingSettings(FeatureSettings):
    """OpenTelemetry spans of each program and each call. `state.payloads` says how much of arguments and results they
    contain."""

    key = "tracing"
    read_at_start = None

    otlp_endpoint: Annotated[str | None, Holds.ADDRESS] = Field(default=None, repr=False)
    """Address of an OTLP/HTTP collector's traces, for instance `http://127.0.0.1:4318/v1/traces`."""
    langfuse: LangfuseSettings = LangfuseSettings()
    """Used when its keys are set; the extra `langfuse` sends them by Langfuse's own client."""
    service_name: str = "codemode-server"
    """`service.name` of the spans."""
    mcp: bool = True
    """`false`: no spans of calls to the servers, and no trace context (`traceparent`, `baggage`) is sent to them. A
    program is then one span, without what it called. Also `serve --no-mcp-tracing`."""

    def completed(self, variables: Mapping[str, str]) -> Self:
        """Langfuse's own variables too, so that those in `.env` count."""
        given = self.langfuse
        filled = {
            key: getattr(given, key) or variables.get(f"LANGFUSE_{key.upper()}") or None
            for key in LangfuseSettings.model_fields
        }
        return self.model_copy(update={"langfuse": given.model_copy(update=filled)})


def without_mcp_tracing(settings: Settings) -> Settings:
    """With `tracing.mcp` off."""
    return settings.model_copy(update={"tracing": TracingSettings.of(settings).model_copy(update={"mcp": False})})


class MetricSettings(FeatureSettings):
    """Numbers on what runs: executions, calls, queue, sandboxes, servers. They hold no arguments and no results."""

    key = "metrics"
    read_at_start = None

    otlp_endpoint: Annotated[str | None, Holds.ADDRESS] = Field(default=None, repr=False, max_length=2_000)
    """Address of an OTLP/HTTP collector's metrics, for instance `http://127.0.0.1:4318/v1/metrics`. Default: what
    `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` says."""
    port: Number | None = Field(default=None, ge=1, le=65_535)
    """Serves Prometheus's text at `http://127.0.0.1:PORT/metrics`, to this machine only. Each user of the machine can
    read it."""
    http: bool = False
    """`serve --http` answers `/metrics` with Prometheus's text. It needs the token of the person who runs the server,
    or one of `readers`."""
    readers: tuple[PrincipalName, ...] = ()
    """Principals whose tokens (`codemode-server tokens create prometheus`) may read `/metrics` as well."""
    tools: bool = False
    """Count calls by tool, too. A server with many tools makes many series."""
