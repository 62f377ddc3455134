"""A dry run: calls that only read run for real; all others are captured, not sent, and answered by placeholders.

A reading whose arguments derive from a placeholder is captured as well, since a server would be asked for something
that does not exist. A call that the permissions deny is denied. One that a person would be asked about is captured
without a question, and the plan says that it asks.
"""

from __future__ import annotations

from typing import Any

from codemode_server.catalog.returns import result_schema
from codemode_server.domain.calls import Ask, Capture, Decision, Deny, ToolCall
from codemode_server.domain.tools import Effect
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.placeholders import Placeholder, calls_in, placeholder_of
from codemode_server.gateway.plan import UNSTATED_EFFECT
from codemode_server.gateway.targets import CallTarget, ToolTarget, title_of
from codemode_server.sandbox.contract import Reply

CHANGED = Deny("a dry run sends only calls that read, and this tool has changed since the call was decided")
_WRITE = "a dry run sends no call that may change something"
_READING = "its arguments derive from a call that the dry run did not send"


def derives_from_placeholder(calls: ExecutionCalls, arguments: dict[str, Any]) -> bool:
    """True if these arguments derive from the placeholder of a captured call. May be called in a thread."""
    return bool(calls.captured) and not calls_in(arguments).isdisjoint(calls.captured or ())


def has_to_capture(calls: ExecutionCalls, target: CallTarget, *, derives: bool) -> bool:
    """True if a call is captured and not sent. `derives`: its arguments derive from a placeholder."""
    return calls.captured is not None and (target.effect is not Effect.READS or derives)


def capture(calls: ExecutionCalls, call: ToolCall, target: CallTarget, decided: Decision) -> Decision:
    """The decision on a call that is not sent, where `decided` is that of the policy."""
    if isinstance(decided, Deny) or calls.captured is None:
        return decided
    calls.captured.add(call.seq)
    is_reading = target.effect is Effect.READS
    result_type = str(target.tool.returned.type) if isinstance(target, ToolTarget) else "Any"
    asks = decided.reason if isinstance(decided, Ask) else ""
    effect = UNSTATED_EFFECT if target.effect is Effect.UNKNOWN else _WRITE
    return Capture(result_type, _READING if is_reading else effect, asks, is_reading)


def placeholder_reply(call: ToolCall, target: CallTarget) -> Reply:
    """Reply for the program in place of the result."""
    title = title_of(target)
    if not isinstance(target, ToolTarget):
        return _reply(placeholder_of({}, None, call.seq, title))
    found = placeholder_of(*result_schema(target.tool.definition, target.tool.observed), call.seq, title)
    if not target.is_raw:
        return _reply(found)
    content = [{"type": "text", "text": f"<text of {title} #{call.seq}>"}]
    return Reply({"content": content, "structuredContent": found.value, "isError": False})


def _reply(found: Placeholder) -> Reply:
    if not found.unknown:
        return Reply(found.value)
    return Reply(
        [{"type": "placeholder", "value": found.value, "unknown": list(found.unknown), "number": found.number}],
        "blocks",
    )
