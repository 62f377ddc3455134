"""Execution metrics, updated from execution events."""

from __future__ import annotations

from codemode_server.executions.events import ExecutionEvent, ExecutionSettled
from codemode_server.telemetry.metrics import EXECUTION_SECONDS, EXECUTIONS, Metrics


class ExecutionMetrics:
    """Counts by kind and status."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __call__(self, event: ExecutionEvent) -> None:
        if isinstance(event, ExecutionSettled):
            self._metrics.count(EXECUTIONS, event.kind.value, event.status.value)
            self._metrics.count(EXECUTION_SECONDS, event.kind.value, amount=event.milliseconds / 1e3)
