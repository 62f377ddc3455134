"""State of the calls of one execution: its owner, counters, and reports for the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from codemode_server.calls.expected_calls import EarlierCalls, PlannedCalls
from codemode_server.catalog.catalog import Tool
from codemode_server.config.live import Caller
from codemode_server.domain.approvals import Approval
from codemode_server.domain.calls import Ask, CallKey, CallStatus, ResultKey
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import NO_HOST_INPUT, HostInput
from codemode_server.domain.savings import ServerTokens
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import HostWait
from codemode_server.support.text import clean_line
from codemode_server.upstreams.progress import CallProgress

if TYPE_CHECKING:
    from codemode_server.calls.kernel import Chain


_MAX_NUMBERS = 5
MAX_OPEN_QUESTIONS = 5
"""Questions of one program that a person sees at once; further calls wait until one is answered."""


@dataclass(frozen=True, slots=True)
class CallReport:
    seq: int
    server: str
    tool: str
    """Python names, as the program imported them."""
    status: CallStatus
    milliseconds: float
    result_bytes: int = 0
    result_tokens: int = 0
    """Estimated tokens that the result would have cost the model."""
    error: str | None = None
    arguments: dict[str, str] = field(default_factory=dict)
    """A summary of each argument, without secrets; for the model, in case the program fails."""
    result: str = ""
    """A summary of the result, without secrets."""
    effect: Effect = Effect.UNKNOWN
    has_error_text: bool = False
    """True if the upstream returned an error text as a normal result."""
    is_replayed: bool = False
    """True if it was answered from an earlier run of the program, whose number it has."""


@dataclass(slots=True)
class UnmarkedErrors:
    """The calls of one tool that were answered with an error as a normal result."""

    title: str
    """`server.tool`, as the program imported them."""
    error: str
    """The first one, and `test`, how a program finds it out."""
    test: str
    arguments: Mapping[str, str]
    """A summary of those of the first call, without secrets."""
    seqs: list[int] = field(default_factory=list)

    def line(self, visible: Callable[[str], str]) -> str:
        """Line for the model; `visible` hides what it may not see in the texts of others."""
        numbers = ", ".join(map(str, self.seqs[:_MAX_NUMBERS])) + (", …" if len(self.seqs) > _MAX_NUMBERS else "")
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        which = f"call {numbers} ({clean_line(visible(arguments), 100)})" if len(self.seqs) == 1 else f"calls {numbers}"
        error, test = visible(self.error), visible(self.test)
        return f"{which} did NOT succeed: {self.title} returned its error as a result: {error}; test: {test}"


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call that was sent and is not answered yet."""

    title: str
    """`server.tool`, as the program imported them."""
    progress: CallProgress
    effect: Effect = Effect.UNKNOWN


@dataclass(slots=True)
class AskedApprovals:
    """Approval questions of one execution."""

    places: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_OPEN_QUESTIONS))
    """One is held while a question is open."""
    asking: defaultdict[str, anyio.Lock] = field(default_factory=lambda: defaultdict(anyio.Lock))
    """Spellings of calls (`patterns.spelling_of`) → held while a person is asked about one: an equal one waits."""
    refused: int = 0
    """Number of questions that the person answered with no, or nobody answered."""
    waiting: dict[int, str] = field(default_factory=dict)
    """Numbers of calls that a person was asked about → the call with a summary of its arguments, without secrets."""
    questions: dict[int, str] = field(default_factory=dict)
    """The same → the commands that answer the question."""
    for_good: dict[int, str] = field(default_factory=dict)
    """The same → the command after which such calls are not asked about; empty if there is none."""
    refusals: dict[str, Approval] = field(default_factory=dict)
    """Spellings of the calls that the person refused → the question."""
    outlive_program: bool = False
    """True if open questions stay when the program ends, since it will run again and wait for them."""


@dataclass(slots=True)
class DirectEstimate:
    """Tokens that a model making the calls itself would have written and read; see `features/savings`."""

    servers: dict[str, ServerTokens] = field(default_factory=dict)
    """By the raw names of the servers."""
    turns: int = 0
    """Turns in which the model would have sent the calls."""
    in_flight: set[int] = field(default_factory=set)
    """Numbers of the calls that were sent and have not ended."""
    last_tool: tuple[str, str] | None = None
    """Raw names of the tool that was called last."""


@dataclass(slots=True)
class ExecutionCalls:
    """State of the calls of one execution. It is made with the execution and bound to the sandbox's channel, so nothing
    in a frame can name an execution, a session or a principal."""

    execution_id: ExecutionId
    caller: Caller
    started: int = 0
    """Number of calls so far."""
    unresolved: int = 0
    """Number of calls to servers and tools that do not exist."""
    occurrences: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Server, tool and digest of the arguments → number of such calls so far."""
    counted: Counter[str] = field(default_factory=Counter)
    """Permission rule with a limit for each execution → calls that it has let through, or that are reserved in it."""
    writing: defaultdict[str, anyio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: anyio.Semaphore(1, fast_acquire=True))
    )
    """By raw server name; held by the one call that may write and is at the server or waits for its turn there."""
    links: dict[tuple[str, str], str] = field(default_factory=dict)
    """The resources it may read: raw server name and URI, as the program knows it → the URI as the upstream gave it."""
    host: HostInput = NO_HOST_INPUT
    """The host's side of input requests."""
    host_wait: HostWait = field(default_factory=HostWait)
    input_requests: int = 0
    """Number of input requests of upstreams so far."""
    input_s: float = 0.0
    """Seconds spent waiting for the answers to them."""
    approvals: AskedApprovals = field(default_factory=AskedApprovals)
    question: Ask | None = None
    """Question of the guardrails to the person about each of its calls, because of the program itself."""
    chain: Chain | None = None
    """The layers that its calls pass; set with the first one."""

    resumed: EarlierCalls | None = None
    """The calls of the earlier run, if the program runs again."""
    plan: PlannedCalls | None = None
    """Calls that the program may make unasked, if it applies a dry run."""
    captured: set[int] | None = None
    """Numbers of the calls that were not sent, if this is a dry run."""
    in_flight: dict[int, RunningCall] = field(default_factory=dict)
    """By their number (`seq`), the oldest first."""
    direct: DirectEstimate = field(default_factory=DirectEstimate)
    reports: list[CallReport] = field(default_factory=list)
    """The calls that ended, in the order in which they ended."""
    messages: list[str] = field(default_factory=list)
    """Lines for the model beside the result; cleaned and redacted when they are shown."""
    unmarked_errors: dict[tuple[str, str], UnmarkedErrors] = field(default_factory=dict)
    """By the raw names of the tools."""
    has_workspace_message: bool = False
    """True if a message already says that servers can't read /workspace."""

    doubted_keys: frozenset[ResultKey] = frozenset()
    """Keys that the program uses and no known result has, as reported by the check before the run."""
    received_keys: set[ResultKey] = field(default_factory=set)
    """Doubted keys that a result had after all."""

    @contextmanager
    def wait_for_person(self, input_seconds: float) -> Iterator[None]:
        """Counts the time within as waiting for the host's person or model, and cancels it once all such waiting has
        taken this long."""
        began = anyio.current_time()
        try:
            with anyio.move_on_after(max(0.0, input_seconds - self.input_s)), self.host_wait.one_more():
                yield
        finally:
            self.input_s += anyio.current_time() - began

    def next_seq(self) -> int:
        self.started += 1
        return self.started + (self.resumed.last_seq if self.resumed else 0)

    def next_key(self, server: str, tool: str, digest: str) -> CallKey:
        """The key of the next call with these raw names and arguments."""
        self.occurrences[server, tool, digest] += 1
        key = CallKey(server, tool, digest, self.occurrences[server, tool, digest])
        if self.resumed is not None:
            self.resumed.order.note_made(key)
        return key

    async def wait_for_turn(self, key: CallKey) -> None:
        """Wait until the program may get the answer to this call, if it runs again."""
        if self.resumed is not None:
            await self.resumed.order.wait(key)

    def note_answered(self, key: CallKey) -> None:
        """The program gets the answer to this call now."""
        if self.resumed is not None:
            self.resumed.order.note_answered(key)

    def doubted_keys_of(self, tool: Tool) -> set[str]:
        return {one.key for one in self.doubted_keys if (one.server, one.tool) == (tool.server, tool.name)}
