"""Learns result types from calls that succeeded.

Subscribes to the pipeline's events.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.calls import Recorded, ResultKey
from codemode_server.gateway.events import CallEnded, CallEvent
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.learning import Learning
from codemode_server.gateway.targets import ToolTarget
from codemode_server.json_values import values_in
from codemode_server.sandbox.contract import Reply

_MAX_VALUES = 200_000
"""Values of one result in which keys are looked for that the check before the run has doubted."""


class CallLearning:
    """Passes results to `Learning`, except raw results and errors that came as normal results."""

    def __init__(self, learning: Learning) -> None:
        self._learning = learning

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallEnded(target=ToolTarget() as target, reply=Reply() as reply, decision=Recorded()):
                _note_keys(event.calls, target.tool, reply)  # it was learned when it was made
            case CallEnded(calls=calls) if calls.captured is not None:
                pass  # a dry run teaches nothing
            case CallEnded(target=ToolTarget(is_raw=False) as target, reply=Reply() as reply):
                if event.result.unmarked_error is None:
                    self._learn(event, target.tool, reply)
            case _:
                pass

    def _learn(self, event: CallEnded, tool: Tool, reply: Reply) -> None:
        calls, call = event.calls, event.call
        _note_keys(calls, tool, reply)
        self._learning.learn(call.server, tool, call.arguments, reply)


def _note_keys(calls: ExecutionCalls, tool: Tool, reply: Reply) -> None:
    if doubted := calls.doubted_keys_of(tool):
        calls.received_keys |= {ResultKey(tool.server, tool.name, key) for key in keys_in(reply.value, doubted)}


def keys_in(value: Any, wanted: Set[str]) -> set[str]:
    """Those of the wanted keys that any dict in a JSON value has."""
    found: set[str] = set()
    for inner in islice(values_in(value), _MAX_VALUES):
        if isinstance(inner, dict):
            found |= wanted & inner.keys()
        if len(found) >= len(wanted):
            break
    return found
