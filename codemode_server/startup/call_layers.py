"""The layers of a call, in their order, and the gateway that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemode_server.calls.call_audit import CallAudit
from codemode_server.calls.call_input import ServerTexts
from codemode_server.calls.call_reports import CallReports
from codemode_server.calls.decisions import Decisions
from codemode_server.calls.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallEnded,
    CallEvents,
    CallSending,
    Subscription,
)
from codemode_server.calls.gateway import Gateway
from codemode_server.calls.kernel import Kernel, Layer
from codemode_server.calls.policy.limits import Limits
from codemode_server.calls.resolver import CatalogSource, TargetResolver
from codemode_server.calls.steps import Approval, Approver, Begin, Check, NoApprover, Send, WriteTurn
from codemode_server.config.live import LiveConfig
from codemode_server.features import create, provided
from codemode_server.features.changed_tools.call_layer import ChangedTools
from codemode_server.features.data_flow.call_layer import DataFlow, ReplayedSources

if TYPE_CHECKING:
    from codemode_server.app import App
    from codemode_server.calls.gateway import SignIns
    from codemode_server.features.guardrails.chain import GuardrailChain
    from codemode_server.features.privacy.call_privacy import Privacy
    from codemode_server.storage.journal import Journal
    from codemode_server.upstreams.pool import UpstreamPool


@dataclass(frozen=True, slots=True)
class CallFeatures:
    """What the configuration adds to calls."""

    privacy: Privacy | None = None
    guardrails: GuardrailChain | None = None
    sign_ins: SignIns | None = None
    outermost: Sequence[Layer] = ()
    """Layers that look at nothing that others change."""


def gateway(
    config: LiveConfig,
    source: CatalogSource,
    upstreams: UpstreamPool,
    journal: Journal,
    approver: Approver,
    events: CallEvents,
    features: CallFeatures,
) -> Gateway:
    resolver, decisions, privacy = TargetResolver(source), Decisions(config), features.privacy
    limits = Limits(config, decisions.policy, journal)
    layers: list[Layer] = [
        *(it(config) for it in provided("call_layer")),  # of features that need no other place
        *features.outermost,
        # They see the result last, and the key is made of what they leave.
        *_layers("guardrail_layer", features.guardrails, decisions),
        *([] if privacy is None else [privacy]),  # all others but the server see tokens
        *_layers("guarded_values_layer", features.guardrails),  # after the values are known
        Check(config),  # nobody is asked about a call that is refused or can't be sent
        *_layers("departures_layer", decisions),  # may be one more question
        Approval(
            approver, decisions, limits, resolver, events
        ),  # decides again whenever what was decided on has changed
        *_layers("replay_layer", decisions),  # also what a person says has arrived
        *_layers("dry_run_layer"),  # nothing of what is inside is done
        *_layers("sign_in_layer", features.sign_ins, events),  # asks a person, so no turn is held
        WriteTurn(upstreams, decisions),  # one that waits was not sent, so nothing is recorded of it
        Begin(journal, limits, events, config, privacy or ServerTexts()),  # a call that can't be recorded is not sent
    ]
    kernel = Kernel(layers, Send(upstreams), decisions=decisions, journal=journal, events=events, config=config)
    return Gateway(resolver, kernel, events, features.sign_ins)


def _layers(name: str, *parts: object) -> list[Layer]:
    """The layer that a feature provides by this name, made of these parts; none if the product lacks one of them."""
    return [] if None in parts else [it(*parts) for it in provided(name)]


def product_gateway(app: App) -> Gateway:
    """The gateway of a product, and who hears of its calls."""
    config, stores, telemetry = app.config, app.stores, app.telemetry
    events = CallEvents(
        [
            Subscription(app.sources.take_event, (CallSending,)),
            *([telemetry.call_tracing] if telemetry is not None else []),
            CallReports(config),
        ],
        after_answer=[
            *([Subscription(app.tools.learning.take_event, (CallEnded,))] if app.tools.learning is not None else []),
            *provided("call_observer"),
            CallAudit(stores.audit, config),
            *([telemetry.call_metrics] if telemetry is not None else []),
            Subscription(
                lambda event: app.executions.take_call_event(event),
                (CallApprovalRequested, CallApprovalSettled, CallEnded),
            ),
        ],
    )
    outermost = ChangedTools(app.tools.definitions), DataFlow(config, app.sources), ReplayedSources(app.sources)
    features = CallFeatures(app.privacy, app.guardrails, create("sign_ins", app.pool, config), outermost)
    return gateway(config, app.tools, app.pool, stores.journal, app.approver or NoApprover(), events, features)
