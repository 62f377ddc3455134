"""Counts calls. Subscribes to the events of calls."""

from __future__ import annotations

from codemode_server.calls.events import CallEnded, CallEvent, CallRetried, CallUnresolved
from codemode_server.config.live import LiveConfig
from codemode_server.features.telemetry.metrics import CALL_RETRIES, CALL_SECONDS, CALLS, Metrics
from codemode_server.features.telemetry.settings import MetricSettings

_NONE = "none"
"""The server and the decision of a call to what does not exist: its names are the program's choice."""


class CallMetrics:
    """Counts calls by server, decision and status, and by tool with `metrics.tools`; retries by server and reason."""

    def __init__(self, metrics: Metrics, config: LiveConfig) -> None:
        self._metrics = metrics
        self._config = config

    def __call__(self, event: CallEvent) -> None:
        if not self._metrics.is_on:
            return
        match event:
            case CallEnded(call=call, decision=decision, outcome=outcome):
                mask = self._config.redactor.text
                tool = mask(call.tool) if MetricSettings.of(self._config.settings).tools else ""
                server = mask(call.server)
                self._metrics.count(CALLS, server, decision.kind, outcome.status.value, tool)
                self._metrics.count(CALL_SECONDS, server, tool, amount=outcome.milliseconds / 1e3)
            case CallRetried(call=call, reason=reason):
                self._metrics.count(CALL_RETRIES, self._config.redactor.text(call.server), reason.value)
            case CallUnresolved():
                self._metrics.count(CALLS, _NONE, _NONE, "unresolved")
            case _:
                pass
