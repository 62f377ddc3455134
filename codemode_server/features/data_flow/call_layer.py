"""Restricts calls by what the session has read before (`permissions.flows`)."""

from __future__ import annotations

from functools import partial

from codemode_server.calls.kernel import Call, Layer
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Deny
from codemode_server.features.data_flow.flows import FlowRules
from codemode_server.features.data_flow.read_sources import ReadSources


class DataFlow(Layer):
    def __init__(self, config: LiveConfig, sources: ReadSources) -> None:
        self._rules = FlowRules(config, sources.labels)
        self._sources = sources

    def restrict(self, call: Call) -> Deny | Ask | None:
        if not self._sources.has_rules:
            return None
        return self._rules.decide(call.target, partial(self._sources.of, call.calls.caller))
