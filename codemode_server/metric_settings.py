"""The section `metrics` of `upstream.yaml`: where the numbers of a running product can be read."""

from __future__ import annotations

from pydantic import Field

from codemode_server.http_settings import PrincipalName
from codemode_server.setting_types import Number, Section


class MetricSettings(Section):
    """Numbers on what runs: executions, calls, queue, sandboxes, servers. They hold no arguments and no results."""

    otlp_endpoint: str | None = Field(default=None, repr=False, max_length=2_000)
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
