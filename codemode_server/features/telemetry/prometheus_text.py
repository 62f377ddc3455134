"""Writes metrics in Prometheus's text format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/

`opentelemetry-exporter-prometheus` would do it with `prometheus_client` and a registry of the whole process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics.export import HistogramDataPoint, Metric, MetricsData, NumberDataPoint, Sum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(data: MetricsData | None) -> str:
    """All metrics of a reader; counters end in `_total`, units are part of the name."""
    resources = data.resource_metrics if data is not None else ()
    scopes = [scope for resource in resources for scope in resource.scope_metrics]
    return "".join(f"{line}\n" for scope in scopes for metric in scope.metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    points = metric.data.data_points
    is_histogram = any(isinstance(point, HistogramDataPoint) for point in points)
    is_counter = isinstance(metric.data, Sum)
    name = metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "") + ("_total" if is_counter else "")
    yield f"# HELP {name} {_escaped(metric.description or '')}"
    yield f"# TYPE {name} {'histogram' if is_histogram else 'counter' if is_counter else 'gauge'}"
    for point in points:
        labels = {key.replace(".", "_"): str(value) for key, value in (point.attributes or {}).items()}
        if isinstance(point, HistogramDataPoint):
            yield from _histogram(name, labels, point)
        elif isinstance(point, NumberDataPoint):
            yield f"{name}{_labels(labels)} {_number(point.value)}"


def _histogram(name: str, labels: Mapping[str, str], point: HistogramDataPoint) -> Iterator[str]:
    count = 0
    for bound, more in zip([*point.explicit_bounds, math.inf], point.bucket_counts, strict=True):
        count += more
        yield f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {count}"
    yield f"{name}_sum{_labels(labels)} {_number(point.sum)}"
    yield f"{name}_count{_labels(labels)} {point.count}"


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{key}="{_escaped(value, quote=True)}"' for key, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: Any) -> str:
    return "+Inf" if value == math.inf else repr(value)
