"""The one way to an upstream: judge, record, check, forward, settle.

`call` is all there is; `read` is a call as well, of a resource that a result of the same execution links to.
Nothing in a call's frame says who calls: the `Caller` is bound to the sandbox's channel by the executor, and counts its
calls. A call that can't be recorded is not sent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import anyio
from opentelemetry.trace import Span

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import (
    CallError,
    CallRefused,
    ExecutionError,
    InvalidArguments,
    ToolFailed,
    UnknownTool,
)
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.gateway import summaries
from codemode_server.gateway.arguments import check_arguments
from codemode_server.gateway.attempts import (
    Errand,
    Sent,
    error_text_of,
    no_error_text,
    no_failure,
    refusal,
    status_of,
    uris,
)
from codemode_server.gateway.learning import Learning, contradiction
from codemode_server.gateway.ledger import MAX_ERROR_CHARACTERS, CallStart, Ledger
from codemode_server.gateway.policy import Names, Verdict, judge
from codemode_server.gateway.received_keys import ResultKey, keys_in
from codemode_server.gateway.workspace_paths import note_on_path
from codemode_server.off_loop import is_large, run_sized
from codemode_server.redaction import kept_text, payload
from codemode_server.sandbox.contract import Reply
from codemode_server.sandbox.frames import holds_long_text, json_pieces
from codemode_server.telemetry import spans
from codemode_server.text import clean_line
from codemode_server.tokens import estimate_tokens
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import failure_of

logger = logging.getLogger(__name__)


class Upstreams(Protocol):
    """What the gateway needs of the upstreams."""

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any], *, progress: CallProgress) -> Reply:
        """Call a tool by its raw names; what the upstream reports meanwhile is written to `progress`.

        Raises:
            ToolFailed, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """

    async def call_raw(
        self, server: str, tool: str, arguments: dict[str, Any], *, progress: CallProgress
    ) -> dict[str, Any]:
        """As `call_tool`, but the result as it came, also if it says that it is an error."""

    async def read_resource(self, server: str, uri: str, *, progress: CallProgress) -> Reply:
        """Read a resource of a server by its raw name; raises as `call_tool` does."""


READ_RESOURCE = "read_resource"
"""The reading of a linked resource, as `permissions.rules` and reports name it."""
_READ_METHOD = "resources/read"
"""Its name in the record: the protocol's method."""
MAX_GUESSES = 20
"""Different arguments with a secret of the configuration in them; a program with more of them is ended."""
_MAX_LINKS = 10_000
"""Links that an execution keeps."""


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
    arguments: dict[str, str] = field(default_factory=dict)
    """A glimpse of each argument sent, without secrets; for the model, in case the program fails."""
    result: str = ""
    """A glimpse of what came back, likewise."""
    effect: Effect = Effect.UNKNOWN
    has_error_text: bool = False
    """Whether the upstream answered with the text of an error as a normal result."""


@dataclass(frozen=True, slots=True)
class CallInFlight:
    """A call that was sent and is not answered yet."""

    title: str
    """`server.tool`, as the program imported them."""
    progress: CallProgress


@dataclass(slots=True)
class Caller:
    """Who calls: one execution. Keeps what was called, in order, for the result and the trace."""

    execution_id: ExecutionId
    started: int = 0
    reports: list[CallReport] = field(default_factory=list)
    in_flight: dict[int, CallInFlight] = field(default_factory=dict)
    """By their number (`seq`), the oldest first."""
    links: dict[tuple[str, str], str] = field(default_factory=dict)
    """What it may read: raw server name and URI, as the program knows it → the URI as the upstream gave it."""
    notes: list[str] = field(default_factory=list)
    """What the model is told beside the result, a line each; cleaned and redacted when it is shown."""
    tools: dict[tuple[str, str], Tool] = field(default_factory=dict)
    """The tools that answered it, as they were when they first did: what their stubs had said."""
    drifted: set[tuple[str, str]] = field(default_factory=set)
    """Those of whose results a note says already that they are not what the stub says; raw names."""

    doubted_keys: frozenset[ResultKey] = frozenset()
    """Keys that the check before the run has not known any result to have."""
    received_keys: set[ResultKey] = field(default_factory=set)
    """Those of them that a result had after all."""

    unmarked_errors: dict[tuple[str, str], str] = field(default_factory=dict)
    """Raw names of tools that answered with an error as a normal result → a line that says so, of the first one."""

    guesses: set[bytes] = field(default_factory=set)
    """Digests of the arguments that had a secret of the configuration in them, which no program is told."""

    has_workspace_note: bool = False
    """Whether a note says already that servers do not see /workspace."""

    def next_seq(self) -> int:
        self.started += 1
        return self.started

    def note_workspace_path(self, tool: Tool, arguments: JsonValue, failure: str) -> None:
        """Tell the model, once, if the call failed because it was given the path of a program's file."""
        if not self.has_workspace_note and (note := note_on_path(f"{tool.server}.{tool.name}", arguments, failure)):
            self.has_workspace_note = True
            self.notes.append(note)

    def doubted_keys_of(self, tool: Tool) -> set[str]:
        return {one.key for one in self.doubted_keys if (one.server, one.tool) == (tool.server, tool.name)}


@dataclass(frozen=True, slots=True)
class _ReplyDetails:
    """What is reported and recorded of a reply."""

    size: int = 0
    """As JSON, bytes."""
    tokens: int = 0
    glimpse: str = ""
    kept: str | None = None
    """What the record holds of it."""
    failure: str | None = None
    """See `Errand.failure`, and `Errand.error_text`."""
    error_text: str | None = None


class Gateway:
    """Built once; holds no state of any call."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        upstreams: Upstreams,
        ledger: Ledger,
        config: LiveConfig,
        learning: Learning | None = None,
    ) -> None:
        """Without `learning`, what tools give is learned for as long as the gateway lives."""
        self._catalog = catalog
        self._upstreams = upstreams
        self._ledger = ledger
        self._config = config
        self._learning = learning or Learning()

    async def call(
        self, caller: Caller, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False
    ) -> Reply:
        """Call a tool on behalf of `caller`, named as in `servers.<server>.<tool>`, with raw argument names.

        `raw` gives the whole result as the upstream sent it, and raises nothing if that says that it is an error.

        Raises:
            CallError: the call did not succeed; the message is for the program.
            LedgerUnavailable: it could not be recorded, so it was not sent.
        """
        try:
            found_server = self._catalog().server(server)
            found = found_server.tool(tool)
        except UnknownTool as error:
            raise self._unknown(caller, server, tool, error) from None

        async def send(progress: CallProgress) -> Reply:
            names = found_server.raw_name, found.raw_name
            if raw:
                return Reply(await self._upstreams.call_raw(*names, arguments, progress=progress))
            return await self._upstreams.call_tool(*names, arguments, progress=progress)

        alone = name_alone(found.raw_name, Kind.TOOL)
        errand = Errand(
            found_server,
            found.raw_name,
            found.name,
            alone,
            found.effect,
            arguments,
            check=partial(check_arguments, found, arguments),
            send=send,
            failure=failure_of if raw else no_failure,
            error_text=no_error_text if raw else error_text_of,
        )
        try:
            reply, said = await self._run(caller, errand)
        except ToolFailed as error:
            caller.note_workspace_path(found, arguments, str(error))
            raise
        if raw:
            return reply
        if said is None:
            self._learn(caller, found_server, found, arguments, reply)
        else:
            caller.note_workspace_path(found, arguments, said)
            line = f"{found.server}.{found.name} answered with an error as a normal result: {said}"
            caller.unmarked_errors.setdefault((found_server.raw_name, found.raw_name), line)
        return reply

    async def read(self, caller: Caller, server: str, uri: str) -> Reply:
        """Read a resource that a result of the same execution and server links to; raises as `call` does."""
        try:
            found = self._catalog().server(server)
        except UnknownTool as error:
            raise self._unknown(caller, server, READ_RESOURCE, error) from None

        def check() -> None:
            if (found.raw_name, uri) not in caller.links:
                raise InvalidArguments(
                    f"no result of {found.name} in this program links to {clean_line(uri, 200)!r}; only a link that a "
                    "call gave can be fetched, by its file.fetch()"
                )

        reply, _ = await self._run(
            caller,
            Errand(
                found,
                _READ_METHOD,
                READ_RESOURCE,
                "",
                Effect.READS,
                {"uri": uri},
                check=check,
                send=lambda progress: self._upstreams.read_resource(
                    found.raw_name, caller.links[found.raw_name, uri], progress=progress
                ),
            ),
        )
        return reply

    def _unknown(self, caller: Caller, server: str, tool: str, error: UnknownTool) -> UnknownTool:
        """Nothing to record it under, but the model and the person are told of the attempt."""
        redactor = self._config.redactor
        names = redactor.line(server, 80), redactor.line(tool, 80)
        said = redactor.text(str(error))
        caller.reports.append(CallReport(caller.next_seq(), *names, CallStatus.INVALID, 0.0, error=said))
        return error

    async def _run(self, caller: Caller, errand: Errand) -> tuple[Reply, str | None]:
        """The reply, and the error that it tells as a normal result, if it does."""
        sent = Sent(caller.next_seq(), errand, time.perf_counter())
        # Not for OpenTelemetry to record: the traceback of an error holds what it was raised from, unredacted.
        with spans.tracer().start_as_current_span(
            f"call {errand.server.name}.{errand.name}", record_exception=False, set_status_on_exception=False
        ) as span:
            spans.describe(
                span,
                "tool",
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name=errand.raw_name,
                codemode__server=errand.server.raw_name,
                codemode__execution_id=caller.execution_id,
                codemode__seq=sent.seq,
                codemode__effect=errand.effect.value,
            )
            try:
                await self._admit(caller, sent, span)
                reply = await self._forward(caller, sent)
                details = await run_sized(is_large(reply.value), self._details_of, sent.errand, reply)
            except CallError as error:
                message = self._config.redactor.text(str(error))
                self._settle(caller, sent, span, status_of(error), error=message)
                raise type(error)(message) from error
            except ExecutionError as error:
                self._settle(caller, sent, span, CallStatus.REFUSED, error=str(error))
                raise
            except anyio.get_cancelled_exc_class():
                self._settle(caller, sent, span, CallStatus.CANCELLED, error="the program ended before the answer")
                raise
            status = CallStatus.SUCCEEDED if details.failure is None else CallStatus.FAILED
            self._settle(caller, sent, span, status, details=details, error=details.failure)
            return reply, details.error_text

    async def _admit(self, caller: Caller, sent: Sent, span: Span) -> None:
        """Judge, record and check; what comes back from here without an error may be sent."""
        errand = sent.errand
        verdict = self._judge(errand)
        has_many = is_large(errand.arguments)
        kept = await run_sized(has_many, payload, errand.arguments, self._config.payloads, self._config.redactor)
        spans.observe_input(span, kept)
        spans.describe(span, "tool", codemode__verdict=verdict.answer, codemode__verdict_reason=verdict.reason)
        self._ledger.record_call_started(
            CallStart(
                execution_id=caller.execution_id,
                seq=sent.seq,
                server=errand.server.raw_name,
                tool=errand.raw_name,
                verdict=verdict.answer,
                reason=verdict.reason,
                arguments=kept,
            )
        )
        sent.is_recorded = True
        await run_sized(has_many, self._count_guess, caller, errand)
        if not verdict.lets_through:
            raise CallRefused(refusal(f"{errand.server.name}.{errand.name}", verdict))
        await run_sized(has_many, errand.check)

    def _count_guess(self, caller: Caller, errand: Errand) -> None:
        """End a program that goes on sending what it can only have guessed, and tell the person."""
        if not self._config.redactor.holds_guarded(errand.arguments):
            return
        arguments = json.dumps(errand.arguments, sort_keys=True, default=str).encode(errors="surrogatepass")
        caller.guesses.add(hashlib.sha256(arguments).digest()[:16])
        if len(caller.guesses) > MAX_GUESSES:
            logger.warning(
                "%s: a program sent a secret of the configuration to tools in more than %d ways, the last time to "
                "%s.%s, and was ended",
                *(caller.execution_id, MAX_GUESSES, errand.server.name, errand.name),
            )
            raise ExecutionError(
                f"the program was ended: it sent a secret of the configuration in more than {MAX_GUESSES} calls "
                "with different arguments"
            )

    async def _forward(self, caller: Caller, sent: Sent) -> Reply:
        errand, progress = sent.errand, CallProgress()
        caller.in_flight[sent.seq] = CallInFlight(f"{errand.server.name}.{errand.name}", progress)
        try:
            reply = await errand.send(progress)
        finally:
            del caller.in_flight[sent.seq]
            if progress.restart:
                name = errand.server.name
                caller.notes.append(f"{name} was {progress.restart} since its last call; its state may be gone")
        given_uris = uris(reply.value) if reply.encoding == "blocks" else []
        box = [reply.value]
        reply = replace(reply, value=None)
        shown = replace(reply, value=await run_sized(is_large(box), self._config.redactor.take_value, box))
        if reply.encoding == "blocks":
            for given, known in zip(given_uris, uris(shown.value), strict=False):
                if len(caller.links) < _MAX_LINKS:
                    caller.links[errand.server.raw_name, known] = given
        return shown

    def _details_of(self, errand: Errand, reply: Reply) -> _ReplyDetails:
        size, tokens = _size_of(reply.value)
        redactor = self._config.redactor
        return _ReplyDetails(
            size,
            tokens,
            summaries.of_reply(reply, redactor),
            payload(reply.value, self._config.payloads, redactor),
            errand.failure(reply.value),
            errand.error_text(reply, redactor),
        )

    def _judge(self, errand: Errand) -> Verdict:
        server = errand.server
        return judge(
            self._config.settings.permissions,
            Names(server.raw_name, server.name, name_alone(server.raw_name, Kind.SERVER)),
            Names(errand.raw_name, errand.name, errand.alone),
        )

    def _learn(self, caller: Caller, server: Server, tool: Tool, arguments: dict[str, Any], reply: Reply) -> None:
        """Take in what the tool gives; tell the program's author, once a tool, if its stub had said otherwise."""
        if doubted := caller.doubted_keys_of(tool):
            caller.received_keys |= {ResultKey(tool.server, tool.name, key) for key in keys_in(reply.value, doubted)}
        shape = self._learning.learn(server.raw_name, tool, arguments, reply)
        name = (server.raw_name, tool.raw_name)
        said = caller.tools.setdefault(name, tool)
        if name not in caller.drifted and (note := contradiction(said, shape)):
            caller.drifted.add(name)
            caller.notes.append(note)
            told = (
                note if self._config.payloads != "none" else f"{tool.server}.{tool.name}: result differs from its type"
            )
            logger.warning("%s", told)

    def _settle(
        self,
        caller: Caller,
        sent: Sent,
        span: Span,
        status: CallStatus,
        *,
        details: _ReplyDetails = _ReplyDetails(),
        error: str | None = None,
    ) -> None:
        size, tokens, kept = details.size, details.tokens, details.kept
        milliseconds = (time.perf_counter() - sent.started_at) * 1e3
        redactor = self._config.redactor
        caller.reports.append(
            CallReport(
                sent.seq,
                sent.errand.server.name,
                sent.errand.name,
                status,
                milliseconds,
                size,
                tokens,
                error,
                arguments=summaries.of_arguments(sent.errand.arguments, redactor),
                result=details.glimpse,
                effect=sent.errand.effect,
                has_error_text=details.error_text is not None,
            )
        )
        told = error if self._config.payloads == "all" or error is None else status.value  # a message may hold values
        told = None if told is None else kept_text(told, self._config.redactor, MAX_ERROR_CHARACTERS)
        spans.describe(
            span, "tool", codemode__status=status.value, codemode__result_bytes=size, codemode__result_tokens=tokens
        )
        spans.observe_output(span, kept)
        if told is not None:
            spans.fail(span, status.value, told)
        if sent.is_recorded:
            self._ledger.record_call_settled(caller.execution_id, sent.seq, status, milliseconds, size, kept, told)


def _size_of(value: JsonValue) -> tuple[int, int]:
    """The bytes of a value as JSON, and its tokens; of long texts without a copy of all of it."""
    if holds_long_text([value]):
        sizes = [(len(piece), estimate_tokens(piece.decode())) for piece in json_pieces(value)]
        return sum(size for size, _ in sizes), sum(tokens for _, tokens in sizes)
    text = json.dumps(value, ensure_ascii=False)
    size = sum(len(text[at : at + 2**20].encode("utf-8", "surrogatepass")) for at in range(0, len(text), 2**20))
    return size, estimate_tokens(text)
