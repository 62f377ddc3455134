"""A gateway for tests, with what the product has around it left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from codemode_server.calls.call_reports import CallReports
from codemode_server.calls.events import CallEvents, Subscriber
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.gateway import Gateway
from codemode_server.calls.targets import CallTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import ApprovalDecision, Ask, Deny, ToolCall
from codemode_server.features.guardrails.chain import GuardrailChain
from codemode_server.features.privacy.call_privacy import Privacy
from codemode_server.startup.call_layers import CallFeatures, gateway


@dataclass
class Source:
    """The catalog that a function returns."""

    current: Callable[[], Catalog]

    async def prepare(self) -> None: ...


class Nobody:
    """An approver whose person is away."""

    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> ApprovalDecision:
        on_question()
        return Deny("nobody answers")


def gateway_of(
    catalog: Callable[[], Catalog],
    upstreams: object,
    journal: object,
    config: LiveConfig,
    *,
    subscribers: Sequence[Subscriber] = (),
    sign_ins: object = None,
    approver: object = None,
) -> Gateway:
    """`subscribers` hear of the end of a call after its answer. Default of `approver`: nobody answers."""
    events = CallEvents([CallReports(config)], after_answer=subscribers)
    features = CallFeatures(Privacy(config), GuardrailChain(), cast("Any", sign_ins))
    away: Any = approver or Nobody()
    return gateway(config, Source(catalog), cast("Any", upstreams), cast("Any", journal), away, events, features)
