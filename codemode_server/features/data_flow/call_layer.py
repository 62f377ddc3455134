"""Restricts calls by what the session has read before (`permissions.flows`)."""

from __future__ import annotations

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Deny, Recorded
from codemode_server.features.data_flow.flows import FlowRules
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.sandbox.contract import Reply


class DataFlow(Layer):
    def __init__(self, config: LiveConfig, sources: ReadSources) -> None:
        self._rules = FlowRules(config, sources.labels)
        self._sources = sources

    async def restrict(self, call: Call) -> Deny | Ask | None:
        if not self._sources.has_rules or not self._rules.regard(call.target):
            return None
        return self._rules.decide(call.target, await self._sources.of(call.calls.caller))


class ReplayedSources(Layer):
    """What an earlier run has read counts once this one gets its recorded answer, which may be an error; also if a
    person has forgotten it."""

    def __init__(self, sources: ReadSources) -> None:
        self._sources = sources

    def is_for(self, calls: ExecutionCalls) -> bool:
        return calls.resumed is not None

    async def around(self, call: Call, proceed: Next) -> Reply:
        try:
            return await proceed(call)
        finally:
            if isinstance(call.decision, Recorded):
                await self._sources.take_over(call.calls.caller, [self._sources.source(call.target)])
