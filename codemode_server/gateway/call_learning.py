"""Learns result types from calls that succeeded, and reports results that contradict a stub.

Subscribes to the pipeline's events.
"""

from __future__ import annotations

import logging

from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Recorded
from codemode_server.gateway.events import CallEnded, CallEvent
from codemode_server.gateway.learning import Learning, contradiction
from codemode_server.gateway.received_keys import ResultKey, keys_in
from codemode_server.gateway.targets import ToolTarget
from codemode_server.privacy.replacing import tokens_in
from codemode_server.sandbox.contract import Reply

logger = logging.getLogger(__name__)


class CallLearning:
    """Passes results to `Learning`, except raw results and errors that came as normal results."""

    def __init__(self, learning: Learning, config: LiveConfig) -> None:
        self._learning = learning
        self._config = config

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallEnded(decision=Recorded()):
                pass  # learned when it was made
            case CallEnded(calls=calls) if calls.captured is not None:
                pass  # a dry run teaches nothing
            case CallEnded(target=ToolTarget(is_raw=False) as target, reply=Reply() as reply):
                if event.result.unmarked_error is None:
                    self._learn(event, target.tool, reply)
            case _:
                pass

    def _learn(self, event: CallEnded, tool: Tool, reply: Reply) -> None:
        calls, call = event.calls, event.call
        name = call.server, call.tool
        if doubted := calls.doubted_keys_of(tool):
            calls.received_keys |= {ResultKey(tool.server, tool.name, key) for key in keys_in(reply.value, doubted)}
        stub_tool = calls.called_tools.setdefault(name, tool)
        is_private = not calls.context.is_local
        shape = self._learning.learn(call.server, tool, call.arguments, reply, is_private=is_private)
        if name not in calls.mismatched_tools and (message := contradiction(stub_tool, shape)):
            if tokens_in(reply.value) and not (message := contradiction(stub_tool, shape, has_tokens=True)):
                return
            calls.mismatched_tools.add(name)
            calls.messages.append(message)
            without_fields = f"{tool.server}.{tool.name}: result differs from its type"
            logger.warning("%s", message if self._config.payloads != "none" else without_fields)
