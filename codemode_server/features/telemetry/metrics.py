"""Counts what happens in a product, for an OTLP collector and as Prometheus's text, if either is configured.

OpenTelemetry's SDK is imported by `start` alone; before that, and without configuration, nothing is counted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from codemode_server.features.telemetry.settings import MetricSettings

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader


_CALL_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_EXECUTION_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)


@dataclass(frozen=True, slots=True)
class Instrument:
    name: str
    kind: Literal["counter", "histogram", "gauge"]
    description: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    bounds: tuple[float, ...] = ()
    """Bucket bounds of a histogram."""


EXECUTIONS = Instrument(
    "codemode.executions", "counter", "Executions that have ended, programs and direct calls.", ("kind", "status")
)
EXECUTION_SECONDS = Instrument(
    "codemode.execution.duration",
    "histogram",
    "Time from the turn of an execution, or the wait for it, to its end.",
    ("kind",),
    "s",
    _EXECUTION_SECONDS,
)
CALLS = Instrument(
    "codemode.calls", "counter", "Calls that have ended, sent or not.", ("server", "decision", "status", "tool")
)
CALL_SECONDS = Instrument(
    "codemode.call.duration",
    "histogram",
    "Time from a call to its outcome, with checks and the wait for a person.",
    ("server", "tool"),
    "s",
    _CALL_SECONDS,
)
CALL_RETRIES = Instrument(
    "codemode.call.retries", "counter", "Times that a call was tried again.", ("server", "reason")
)
WAITING = Instrument("codemode.executions.queued", "gauge", "Executions that wait for a place.")
RUNNING = Instrument("codemode.executions.running", "gauge", "Executions that have a place.")
PLACES = Instrument("codemode.executions.places", "gauge", "Executions that may run at once (limits.programs).")
APPROVALS = Instrument("codemode.approvals.waiting", "gauge", "Calls that wait for an answer of a person.")
SANDBOXES = Instrument("codemode.sandboxes", "gauge", "Sandboxes by what they do: idle or busy.", ("state",))
LEVEL = Instrument("codemode.sandbox.level", "gauge", "1 for the isolation that programs run in.", ("level",))
UPSTREAMS = Instrument("codemode.upstream.state", "gauge", "1 for the state that a server is in.", ("server", "state"))
INSTRUMENTS = (
    *(EXECUTIONS, EXECUTION_SECONDS, CALLS, CALL_SECONDS, CALL_RETRIES, WAITING, RUNNING, PLACES, APPROVALS),
    *(SANDBOXES, LEVEL, UPSTREAMS),
)


Readings = Mapping[tuple[str, ...], float]
"""Values by those of the labels, in the order of the instrument's."""
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORT_SECONDS = 5.0


class Metrics:
    """The numbers of one product. Methods may be called in any thread, and raise nothing."""

    def __init__(self, readings: Mapping[Instrument, Callable[[], Readings]]) -> None:
        """`readings` are read when somebody asks: the instruments that nothing is counted for."""
        self._readings = readings
        self._add: dict[str, Callable[[float, dict[str, str]], None]] = {}
        self._provider: MeterProvider | None = None
        self._reader: InMemoryMetricReader | None = None
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        return bool(self._add)

    def start(
        self, settings: MetricSettings, service_name: str, environment: Mapping[str, str] = os.environ
    ) -> list[str]:
        """Sets up what is configured, and returns the names of it. Call it off the event loop, after the handshake."""
        is_text = settings.port is not None or settings.http
        is_otlp = bool(settings.otlp_endpoint) or (
            any(environment.get(name) for name in _OTLP_VARIABLES)
            and environment.get("OTEL_METRICS_EXPORTER") != "none"
        )
        if not is_text and not is_otlp:
            return []
        from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
        from opentelemetry.sdk.metrics.export import (
            InMemoryMetricReader,
            MetricReader,
            PeriodicExportingMetricReader,
        )
        from opentelemetry.sdk.resources import Resource

        readers: list[MetricReader] = []
        if is_text:
            self._reader = InMemoryMetricReader()
            readers.append(self._reader)
        if is_otlp:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            exporter = OTLPMetricExporter(endpoint=settings.otlp_endpoint, timeout=_EXPORT_SECONDS)
            readers.append(PeriodicExportingMetricReader(exporter))
        resource = Resource.create({"service.name": service_name})
        # Exemplars would cost each call more than its metrics do.
        off = AlwaysOffExemplarFilter()
        self._provider = MeterProvider(readers, resource, exemplar_filter=off, shutdown_on_exit=False)
        meter = self._provider.get_meter("codemode-server")
        for instrument in INSTRUMENTS:
            self._make(meter, instrument)
        return [*(["otlp"] if is_otlp else []), *(["prometheus"] if is_text else [])]

    def count(self, instrument: Instrument, *labels: str, amount: float = 1) -> None:
        """One more event, or one more measured value; empty labels are left out."""
        if (add := self._add.get(instrument.name)) is not None:
            add(amount, _labelled(instrument, labels))

    def text(self) -> str:
        """All numbers as of now, in Prometheus's text format; empty if that is not configured."""
        from codemode_server.features.telemetry.prometheus_text import prometheus_text

        if self._reader is None:
            return ""
        with self._lock:
            found = self._reader.get_metrics_data()
        return prometheus_text(found)

    def end(self) -> None:
        """Send the last numbers."""
        if self._provider is not None:
            self._provider.shutdown(_EXPORT_SECONDS * 1e3)

    def _make(self, meter: Meter, instrument: Instrument) -> None:
        about: dict[str, Any] = {"unit": instrument.unit or "1", "description": instrument.description}
        name = instrument.name
        match instrument.kind:
            case "counter":
                self._add[name] = meter.create_counter(name, **about).add
            case "histogram":
                bounds = list(instrument.bounds)
                histogram = meter.create_histogram(name, explicit_bucket_boundaries_advisory=bounds, **about)
                self._add[name] = histogram.record
            case "gauge":
                meter.create_observable_gauge(name, [self._observer(instrument)], **about)

    def _observer(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        read = self._readings.get(instrument, dict)

        def observe(_: CallbackOptions) -> list[Observation]:
            return [Observation(value, _labelled(instrument, labels)) for labels, value in read().items()]

        return observe


def _labelled(instrument: Instrument, labels: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in zip(instrument.labels, labels, strict=False) if value}
