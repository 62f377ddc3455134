"""The layer of a dry run: calls that may change something get a placeholder in place of a result."""

from __future__ import annotations

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.calls.targets import ToolTarget
from codemode_server.domain.calls import Ask, Capture, Deny
from codemode_server.domain.tools import Effect
from codemode_server.features.dry_run.placeholders import DESTROYING, UNSTATED_EFFECT, calls_in, placeholder_reply
from codemode_server.sandbox.contract import Reply
from codemode_server.support.off_loop import run_sized

_WRITE = "a dry run sends no call that may change something"
_READING = "its arguments derive from a call that the dry run did not send"
_REASONS = {Effect.READS: _READING, Effect.DESTROYS: DESTROYING, Effect.UNKNOWN: UNSTATED_EFFECT}
_CHANGED = Deny("a dry run sends only calls that read, and this tool has changed since the call was decided")


class DryRun(Layer):
    def is_for(self, calls: ExecutionCalls) -> bool:
        return calls.captured is not None

    async def restrict(self, call: Call) -> Deny | None:
        is_decided_again = call.is_announced
        return _CHANGED if is_decided_again and call.target.effect is not Effect.READS else None

    async def settle(self, call: Call) -> None:
        captured, target, decided = call.calls.captured, call.target, call.decision
        if captured is None:
            return
        origins = await run_sized(call.is_large, calls_in, call.arguments) if captured else frozenset()
        call.is_guessed = not origins.isdisjoint(captured)
        is_reading = target.effect is Effect.READS
        if isinstance(decided, Deny) or (is_reading and not call.is_guessed):
            return
        captured.add(call.seq)
        result_type = str(target.tool.returned.type) if isinstance(target, ToolTarget) else "Any"
        asks = decided.reason if isinstance(decided, Ask) else ""
        call.decision = Capture(result_type, _REASONS.get(target.effect, _WRITE), asks, is_reading)

    async def around(self, call: Call, proceed: Next) -> Reply:
        if isinstance(call.decision, Capture):
            return placeholder_reply(call.record, call.target)
        return await proceed(call)
