"""Decides on calls by the rules and what layers restrict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from codemode_server.calls.policy.policy import Policy, most_restrictive
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Allow, Ask, Deny
from codemode_server.domain.errors import DecisionOutdated

if TYPE_CHECKING:
    from codemode_server.calls.kernel import Call


class Decisions:
    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self.policy = Policy(config)

    async def decide(self, call: Call) -> None:
        """The most restrictive of all, on what is shown and on what is sent, under the configuration in force."""
        call.revision = self._config.revision  # first: what is edited meanwhile has the call decided again
        decide = partial(self.policy.decide, call.calls, call.target)
        call.restrictions = await _restrictions(call)
        decisions = [decide(call.arguments), *call.restrictions]
        if call.values is not None:
            decisions.append(decide(call.values.arguments))
        if call.departure is not None:  # its reason stands first in the question
            decisions.insert(0, call.departure)
        decision = decisions[0] if len(decisions) == 1 else most_restrictive(decisions)
        remarks = call.changes
        if call.values is not None and isinstance(decision, Allow):
            remarks = (*remarks, call.values.remark)
        call.decision = replace(decision, reason="; ".join((decision.reason, *remarks))) if remarks else decision

    async def decide_again(self, call: Call) -> None:
        """Decide anew, since the configuration, the tool, or what the session has read may have changed; refuse a tool
        that the edited configuration does not offer."""
        server = self._config.settings.servers.get(call.record.server)
        is_offered = server is not None and server.enabled and call.target.is_selected(server)
        if is_offered or call.revision == self._config.revision:
            await self.decide(call)
            return
        call.decision, call.revision = Deny("the edited upstream.yaml does not offer it"), self._config.revision

    async def require_current(self, call: Call) -> None:
        """Raises `DecisionOutdated` if layers restrict the call otherwise than when it was decided."""
        if await _restrictions(call) != call.restrictions:
            raise DecisionOutdated("what the session has read changed while a call waited for its turn")


async def _restrictions(call: Call) -> list[Deny | Ask]:
    return [it for restrict in call.chain.restrict if (it := await restrict(call)) is not None]
