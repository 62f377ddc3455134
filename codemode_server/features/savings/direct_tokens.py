"""Counts what a model that made a program's calls itself would have written and read. Subscribes to their events.

Only calls that were sent count, so none that was refused or answered from an earlier run. A model can send several
calls in one turn. Whether it would have is not known, so calls count as one turn wherever it could have: when they
overlap in time, or follow each other with the same tool.
"""

from __future__ import annotations

import json

from codemode_server.calls.events import CallEnded, CallEvent, CallSending, Subscription
from codemode_server.calls.execution_calls import DirectEstimate
from codemode_server.calls.results import sizes_of
from codemode_server.domain.savings import MAX_RESULT_TOKENS, ServerTokens
from codemode_server.support.off_loop import is_large
from codemode_server.support.tokens import estimate_tokens

_LARGE_TOKENS = 2_000
"""Estimate for a large value that would take long to count; it has at least as many."""


def count_direct_tokens(event: CallEvent) -> None:
    """Writes into `ExecutionCalls.direct`."""
    match event:
        case CallSending(calls, call):
            begin(calls.direct, call.seq, (call.server, call.tool))
        case CallEnded(calls, call) if call.seq in calls.direct.in_flight:
            calls.direct.in_flight.discard(call.seq)
            read = min(_result_tokens(event), MAX_RESULT_TOKENS)
            former = calls.direct.servers.get(call.server, ServerTokens())
            calls.direct.servers[call.server] = ServerTokens(
                former.calls + 1, former.arguments + _argument_tokens(call.arguments), former.results + read
            )
        case _:
            pass


OBSERVER = Subscription(count_direct_tokens, (CallSending, CallEnded))


def begin(direct: DirectEstimate, seq: int, tool: tuple[str, str]) -> None:
    """A call is sent."""
    if not direct.in_flight and tool != direct.last_tool:
        direct.turns += 1
    direct.in_flight.add(seq)
    direct.last_tool = tool


def _argument_tokens(arguments: dict[str, object]) -> int:
    if is_large(arguments):
        return _LARGE_TOKENS
    return estimate_tokens(json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=str))


def _result_tokens(event: CallEnded) -> int:
    """Without images and other files, which models don't read as text."""
    if event.reply is None:
        return estimate_tokens(event.outcome.error or "")
    if event.reply.encoding == "blocks":
        texts = [block for block in event.reply.value if "data" not in block]
        if len(texts) < len(event.reply.value):
            return _LARGE_TOKENS if is_large(texts) else sizes_of(texts)[2]
    return event.result.tokens
