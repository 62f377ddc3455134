"""The one way to an upstream: check, judge, record, forward, settle.

`call` is all there is. Nothing in a call's frame says who calls: the `Caller` is bound to the sandbox's channel by the
executor, and counts its calls. A call that can't be recorded is not sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from opentelemetry.trace import Span

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.errors import (
    CallError,
    CallRefused,
    CallTimedOut,
    InvalidArguments,
    ToolFailed,
    UnknownTool,
    UpstreamUnavailable,
)
from codemode_server.gateway.arguments import check_arguments
from codemode_server.gateway.ledger import CallStart, CallStatus, Ledger
from codemode_server.gateway.policy import Names, Verdict, judge
from codemode_server.model import ExecutionId
from codemode_server.redaction import Payloads, Redactor, payload
from codemode_server.sandbox.backend import Reply
from codemode_server.settings import PermissionSettings
from codemode_server.telemetry import spans
from codemode_server.text import clean_line
from codemode_server.tokens import estimate_tokens


class Upstreams(Protocol):
    """What the gateway needs of the upstreams."""

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call a tool by its raw names.

        Raises:
            ToolFailed, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call, as the model is told of it."""

    seq: int
    server: str
    tool: str
    """Python names, as the program imported them."""
    status: CallStatus
    milliseconds: float
    result_bytes: int = 0
    result_tokens: int = 0
    """What the result would have cost the model, estimated."""
    error: str | None = None


@dataclass(slots=True)
class Caller:
    """Who calls: one execution. Keeps what was called, in order, for the result and the trace."""

    execution_id: ExecutionId
    started: int = 0
    reports: list[CallReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the model is told beside the result, a line each; cleaned and redacted when it is shown."""

    def next_seq(self) -> int:
        self.started += 1
        return self.started


@dataclass(slots=True)
class _Sent:
    """How far a call got."""

    seq: int
    server: Server
    tool: Tool
    started_at: float
    is_recorded: bool = False


_STATUS: tuple[tuple[type[CallError], CallStatus], ...] = (
    (CallRefused, CallStatus.REFUSED),
    (InvalidArguments, CallStatus.INVALID),
    (UpstreamUnavailable, CallStatus.UNAVAILABLE),
    (CallTimedOut, CallStatus.TIMED_OUT),
    (ToolFailed, CallStatus.FAILED),
)


class Gateway:
    """Built once; holds no state of any call."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        upstreams: Upstreams,
        permissions: Callable[[], PermissionSettings],
        ledger: Ledger,
        redactor: Callable[[], Redactor],
        payloads: Payloads,
    ) -> None:
        self._catalog = catalog
        self._upstreams = upstreams
        self._permissions = permissions
        self._ledger = ledger
        self._redactor = redactor
        self._payloads: Payloads = payloads

    async def call(self, caller: Caller, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call a tool on behalf of `caller`, named as in `servers.<server>.<tool>`, with raw argument names.

        Raises:
            CallError: the call did not succeed; the message is for the program.
            LedgerUnavailable: it could not be recorded, so it was not sent.
        """
        try:
            found_server = self._catalog().server(server)
            found = found_server.tool(tool)
        except UnknownTool as error:
            # Nothing to record it under, but the model and the person are told of the attempt.
            names = clean_line(server, 80), clean_line(tool, 80)
            caller.reports.append(CallReport(caller.next_seq(), *names, CallStatus.INVALID, 0.0, error=str(error)))
            raise
        sent = _Sent(caller.next_seq(), found_server, found, time.perf_counter())
        # Not for OpenTelemetry to record: the traceback of an error holds what it was raised from, unredacted.
        with spans.tracer().start_as_current_span(
            f"call {found.server}.{found.name}", record_exception=False, set_status_on_exception=False
        ) as span:
            spans.describe(
                span,
                "tool",
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name=found.raw_name,
                codemode__server=found_server.raw_name,
                codemode__execution_id=caller.execution_id,
                codemode__seq=sent.seq,
                codemode__effect=found.effect.value,
            )
            try:
                self._admit(caller, sent, span, arguments)
                reply = await self._forward(sent, arguments)
            except CallError as error:
                message = self._redactor().text(str(error))
                self._settle(caller, sent, span, _status_of(error), error=message)
                raise type(error)(message) from error
            except anyio.get_cancelled_exc_class():
                self._settle(caller, sent, span, CallStatus.CANCELLED, error="the program ended before the answer")
                raise
            self._settle(caller, sent, span, CallStatus.SUCCEEDED, reply=reply)
            return reply

    def _admit(self, caller: Caller, sent: _Sent, span: Span, arguments: dict[str, Any]) -> None:
        """Judge, record and check; what comes back from here without an error may be sent."""
        verdict = self._judge(sent.server, sent.tool)
        kept = payload(arguments, self._payloads, self._redactor())
        spans.observe_input(span, kept)
        spans.describe(span, "tool", codemode__verdict=verdict.answer, codemode__verdict_reason=verdict.reason)
        self._ledger.record_call_started(
            CallStart(
                execution_id=caller.execution_id,
                seq=sent.seq,
                server=sent.server.raw_name,
                tool=sent.tool.raw_name,
                verdict=verdict.answer,
                reason=verdict.reason,
                arguments=kept,
            )
        )
        sent.is_recorded = True
        if not verdict.lets_through:
            raise CallRefused(_refusal(sent.tool, verdict))
        check_arguments(sent.tool, arguments)

    async def _forward(self, sent: _Sent, arguments: dict[str, Any]) -> Reply:
        reply = await self._upstreams.call_tool(sent.server.raw_name, sent.tool.raw_name, arguments)
        return Reply(self._redactor().value(reply.value), reply.encoding)

    def _judge(self, server: Server, tool: Tool) -> Verdict:
        return judge(
            self._permissions(),
            Names(server.raw_name, server.name, name_alone(server.raw_name, Kind.SERVER)),
            Names(tool.raw_name, tool.name, name_alone(tool.raw_name, Kind.TOOL)),
        )

    def _settle(
        self,
        caller: Caller,
        sent: _Sent,
        span: Span,
        status: CallStatus,
        *,
        reply: Reply | None = None,
        error: str | None = None,
    ) -> None:
        result = json.dumps(reply.value, ensure_ascii=False) if reply else ""
        size = len(result.encode("utf-8", "surrogatepass"))
        tokens = estimate_tokens(result)
        milliseconds = (time.perf_counter() - sent.started_at) * 1e3
        caller.reports.append(
            CallReport(sent.seq, sent.tool.server, sent.tool.name, status, milliseconds, size, tokens, error)
        )
        kept = payload(reply.value, self._payloads, self._redactor()) if reply else None
        told = error if self._payloads == "all" or error is None else status.value  # a message may hold values
        spans.describe(
            span, "tool", codemode__status=status.value, codemode__result_bytes=size, codemode__result_tokens=tokens
        )
        spans.observe_output(span, kept)
        if told is not None:
            spans.fail(span, status.value, told)
        if sent.is_recorded:
            self._ledger.record_call_settled(caller.execution_id, sent.seq, status, milliseconds, size, kept, told)


def _status_of(error: CallError) -> CallStatus:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), CallStatus.FAILED)


def _refusal(tool: Tool, verdict: Verdict) -> str:
    if verdict.answer == "ask":
        return (
            f"{tool.server}.{tool.name} needs a person's approval, and asking for it is not possible yet, "
            f"so the call was refused ({verdict.reason}). Do not try again; tell the user."
        )
    return f"{tool.server}.{tool.name} is not permitted: {verdict.reason.rstrip('.')}. Do not try again; tell the user."
