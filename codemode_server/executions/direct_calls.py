"""Makes the one call of an execution without a program, within the limits that a program has."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from codemode_server.calls.gateway import Gateway
from codemode_server.domain.errors import CallError, LimitExceeded, ToolFailed
from codemode_server.domain.ids import JsonValue
from codemode_server.executions.execution import DirectCall, Execution, Phase
from codemode_server.executions.layers import ExecutionLayers
from codemode_server.sandbox.clock import ProgramClock
from codemode_server.sandbox.contract import Ending, Outcome, ProgramError, Reply
from codemode_server.support.json_values import size_as_json
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.results import to_reply


@dataclass(frozen=True, slots=True)
class DirectCallRuns:
    """Runs the executions without a program."""

    gateway: Gateway
    layers: ExecutionLayers

    async def prepare(self, execution: Execution) -> None:
        """Nothing is checked before its start is recorded."""

    async def run(self, execution: Execution) -> Outcome:
        """Call the tool; the result as the upstream sent it is in `execution.direct_call`, and its value, as a program
        would get it, in the outcome. Raises `LimitExceeded` if a limit ended the call; `ExecutionError`,
        `JournalUnavailable` as for the calls of programs."""
        await execution.wait_recorded()
        execution.phase = Phase.RUNNING
        execution.begun.set()
        call, limits = execution.direct_call, execution.limits
        assert call is not None  # noqa: S101 - the runner calls this for executions with one
        if await run_sized(is_large(call.arguments), size_as_json, call.arguments) > limits.call_bytes:
            raise _too_large("the call's arguments are", limits.call_bytes)
        try:
            with anyio.fail_after(limits.upstream_seconds) as timer:
                _pause_for_host(execution, timer)
                ask = self.gateway.get_prompt if call.is_prompt else self.gateway.call_direct
                async with AsyncExitStack() as stack:
                    await self.layers.around_run(execution, stack)
                    reply = await ask(execution.calls, call.server, call.tool, call.arguments)
                    call.reply = reply.value
        except TimeoutError:
            raise LimitExceeded(
                f"the call took more than {limits.upstream_seconds:g} s (the user can raise limits.upstream_seconds)",
                setting="limits.upstream_seconds",
            ) from None
        except CallError as error:
            return _failure(error)
        if execution.calls.reports[-1].result_bytes > limits.call_bytes:
            raise _too_large("the call's result is", limits.call_bytes)
        return await run_sized(is_large(call.reply), _outcome, call, execution.caller.redactor)


def _pause_for_host(execution: Execution, timer: anyio.CancelScope) -> None:
    """The time does not run while the call waits for the host's user or model."""
    clock = ProgramClock(math.inf, execution.limits.upstream_seconds, anyio.current_time)
    clock.call_started()
    host_wait = execution.calls.host_wait

    def change() -> None:
        clock.set_waiting(host_wait.calls)
        timer.deadline = clock.deadline

    host_wait.on_change = change


def _outcome(call: DirectCall, redactor: Redactor) -> Outcome:
    call.result = call.reply if isinstance(call.reply, dict) else {}
    try:
        value = _value(to_reply(call.reply, redactor=redactor))
    except CallError as error:  # the result says that it is an error
        return _failure(error)
    return Outcome(Ending.RETURNED, value=value, value_form="json")


def _value(reply: Reply) -> JsonValue:
    """The value without its files, which the host gets beside it."""
    if reply.encoding == "json":
        return reply.value
    values = [block.get("value", block.get("text")) for block in reply.value if block["type"] in ("json", "text")]
    return values[0] if len(values) == 1 else values


def _failure(error: CallError) -> Outcome:
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == ToolFailed.__module__)
    return Outcome(Ending.RAISED, error=ProgramError(kind.__name__, str(error)))


def _too_large(what: str, limit: int) -> LimitExceeded:
    size = f"{limit / 2**20:.3g} MiB"
    message = f"{what} larger than {size}; send or ask for less (the user can raise limits.call_bytes)"
    return LimitExceeded(message, setting="limits.call_bytes")
