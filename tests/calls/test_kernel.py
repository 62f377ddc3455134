"""The order of a call's steps, and who may stop it: decide, check, record, send, record. Upstreams are in memory; the
journal fails where a test says so."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from codemode_server.calls import kernel
from codemode_server.calls.events import CallBegan, CallEvent, Subscriber
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.gateway import Gateway
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Decision,
    Deny,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import (
    DecisionOutdated,
    JournalUnavailable,
    SignInRequired,
    ToolFailed,
)
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.resume.resumed_calls import ResumedCalls
from codemode_server.sandbox.contract import Reply
from codemode_server.support.redaction import payload
from codemode_server.upstreams.progress import CallProgress
from tests.calls.gateways import gateway_of
from tests.memory.journal import NoJournal
from tests.memory.upstreams import MemoryUpstreams

TOOL = ToolDefinition(
    "create-issue",
    input_schema={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
)
READING = ToolDefinition("list-issues", input_schema={"type": "object"}, effect=Effect.READS)
CATALOG = Catalog.build([UpstreamListing("github", UpstreamState.READY, (TOOL, READING))])


class RecordingJournal(NoJournal):
    """Writes down what it is asked to record, and fails at one step."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    async def submit_call(self, call: ToolCall, decision: Decision, **options: Any) -> Awaitable[Deny | None]:
        self._steps.record("begin")
        self._steps.durable.append(not options["is_read_only"])
        return self._commit()

    async def _commit(self) -> None:
        await checkpoint()
        if self._steps.failing_step == "commit":
            raise JournalUnavailable("the disk is gone")

    async def flush(self, execution_id: ExecutionId) -> None:
        self._steps.record("flush")

    async def begin_call(
        self, call: ToolCall, decision: Decision, *, is_read_only: bool, recorded_arguments: str | None = None
    ) -> None: ...

    async def end_call(
        self,
        execution_id: ExecutionId,
        seq: int,
        outcome: CallOutcome,
        decision: Decision | None = None,
        *,
        recorded_result: str | None = None,
        recorded_error: str | None = None,
    ) -> None:
        self._steps.record(f"end {outcome.status}")
        self._steps.decided_again = decision


class RecordingUpstreams(MemoryUpstreams):
    """Writes down that something is sent, or fails."""

    def __init__(self, steps: Steps) -> None:
        super().__init__({"number": 7})
        self._steps = steps

    async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        self._steps.steps.append("send")
        if self._steps.upstream_error:
            raise self._steps.upstream_error
        return await super().respond(server, tool, arguments)


@dataclass
class Steps:
    """Upstreams and a journal that write down what reaches them, in one list."""

    steps: list[str] = field(default_factory=list)
    failing_step: str = ""
    """The step of the journal that fails."""
    upstream_error: Exception | None = None
    decided_again: Decision | None = None
    """The decision that the journal got with the last outcome."""
    durable: list[bool] = field(default_factory=list)
    """Whether each record of a beginning had to survive a power cut."""

    def __post_init__(self) -> None:
        self.journal = RecordingJournal(self)
        self.upstreams = RecordingUpstreams(self)

    def record(self, step: str) -> None:
        if self.failing_step and step.startswith(self.failing_step):
            raise JournalUnavailable("the disk is gone")
        self.steps.append(step)

    def on_event(self, event: CallEvent) -> None:
        self.steps.append(type(event).__name__)


def gateway(steps: Steps, subscribers: Sequence[Subscriber] = (), **permissions: Any) -> Gateway:
    config = LiveConfig(Settings.model_validate({"permissions": permissions}))
    return gateway_of(lambda: CATALOG, steps.upstreams, steps.journal, config, subscribers=subscribers)


def execution() -> ExecutionCalls:
    return ExecutionCalls(ExecutionId("x1"), Caller.of(Session("s"), LiveConfig()))


class TestTheOrder:
    async def test_a_call_is_recorded_before_it_is_sent_and_again_when_it_ends(self) -> None:
        steps, calls = Steps(), execution()
        reply = await gateway(steps, [steps.on_event]).call(calls, "github", "create_issue", {"title": "Bug"})
        assert reply.value == {"number": 7}
        assert steps.steps[-1] == "end succeeded", "subscribers hear of the end after the answer"
        await checkpoint()
        assert steps.steps == ["CallBegan", "CallSending", "begin", "send", "end succeeded", "CallEnded"]

    @pytest.mark.parametrize("tool", ["create_issue", "list_issues"])
    async def test_a_call_that_a_limit_counts_is_sent_once_all_that_precedes_it_is_recorded(self, tool: str) -> None:
        """Nobody hears of one that the limit denies, so what they record of the others follows the count."""
        steps, calls = Steps(), execution()
        one = gateway(steps, [steps.on_event], rules=[{"allow": "github", "limit": "9/minute"}])
        await one.call(calls, "github", tool, {"title": "Bug"})
        await checkpoint()
        assert steps.steps == ["CallBegan", "begin", "CallSending", "flush", "send", "end succeeded", "CallEnded"]


async def test_a_call_that_is_decided_again_is_recorded_with_its_last_decision() -> None:
    """Pages and `executions show` name the rule that let it through."""
    steps, calls = Steps(), execution()
    config = LiveConfig(Settings.model_validate({"servers": {"github": {"command": "x"}}}))
    edited = {"servers": {"github": {"command": "x"}}, "permissions": {"rules": [{"allow": "github/*"}]}}

    class Edited(RecordingUpstreams):
        async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
            if config.revision == 0:
                config.replace(Settings.model_validate(edited), config.redactor)
                raise DecisionOutdated("upstream.yaml was edited")
            return await super().respond(server, tool, arguments)

    steps.upstreams = Edited(steps)
    one = gateway_of(lambda: CATALOG, steps.upstreams, steps.journal, config)
    await one.call(calls, "github", "create_issue", {"title": "Bug"})
    assert steps.decided_again == Allow("rule 1 of permissions.rules (allow: github/*)")


async def test_a_sent_call_that_is_decided_again_and_given_up_while_its_person_is_asked_is_recorded_as_ended() -> None:
    """Also where an earlier run of the program had asked the same: this one had begun."""
    steps, calls = Steps(), execution()
    config = LiveConfig(Settings.model_validate({"servers": {"github": {"command": "x"}}}))
    edited = {"servers": {"github": {"command": "x"}}, "permissions": {"rules": [{"ask": "github/*"}]}}

    class Edited(RecordingUpstreams):
        async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
            config.replace(Settings.model_validate(edited), config.redactor)
            raise DecisionOutdated("upstream.yaml was edited")

    class Away:
        async def approve(self, *_: Any, **__: Any) -> Any:
            await anyio.sleep_forever()

    arguments = {"title": "Bug"}
    key = CallKey("github", "create-issue", arguments_digest(arguments), 1)
    earlier = ToolCall(calls.execution_id, 1, "github", "create-issue", arguments, key)
    unsent = CallOutcome(CallStatus.UNSENT, 1.0)
    past = [CallRecord(earlier, Ask("test"), 1.0, unsent, ended_at=2.0)]
    calls.resumed = ResumedCalls(past, effect_of=lambda _, __: Effect.WRITES, unknown="ask")
    steps.upstreams = Edited(steps)
    one = gateway_of(lambda: CATALOG, steps.upstreams, steps.journal, config, approver=Away())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.call, calls, "github", "create_issue", arguments)
        await anyio.wait_all_tasks_blocked()
        assert (steps.steps, key in calls.resumed.waiting) == (["begin"], True), "control: it is asked about"
        tasks.cancel_scope.cancel()
    assert steps.steps == ["begin", "end cancelled"]


async def test_a_program_with_many_writes_delays_that_of_another_by_one() -> None:
    answering, turn = anyio.Event(), anyio.Semaphore(1)

    class OneAtATime(MemoryUpstreams):
        def turn_to_write(self, server: str) -> Any:
            return turn

        async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
            await answering.wait()

    upstreams = OneAtATime()
    one = gateway_of(lambda: CATALOG, upstreams, NoJournal(), LiveConfig())
    many, single = execution(), execution()
    async with anyio.create_task_group() as tasks:
        for calls, title in [*((many, str(number)) for number in range(10)), (single, "other")]:
            tasks.start_soon(one.call, calls, "github", "create_issue", {"title": title})
            await anyio.wait_all_tasks_blocked()
        assert len(upstreams.reached) == 1, "control: the others wait"
        answering.set()
    titles = [arguments["title"] for _, _, arguments in upstreams.reached]
    assert titles == ["0", "other", *map(str, range(1, 10))]
    assert turn.value == 1


async def test_a_read_that_becomes_a_write_before_it_is_sent_is_recorded_as_one() -> None:
    """Else a power cut could take the record of a write that was sent."""
    steps, calls = Steps(), execution()
    catalog, writing = CATALOG, replace(READING, effect=Effect.WRITES)

    class Changed(RecordingUpstreams):
        async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
            nonlocal catalog
            if catalog is CATALOG:
                catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, (TOOL, writing))])
                raise DecisionOutdated("the server has changed the tool")
            return await super().respond(server, tool, arguments)

    steps.upstreams = Changed(steps)
    await gateway_of(lambda: catalog, steps.upstreams, steps.journal, LiveConfig()).call(
        calls, "github", "list_issues", {}
    )
    assert steps.steps == ["begin", "begin", "send", "end succeeded"]
    assert steps.durable == [False, True]


class TestAnAnswerThatWaitsForAnEarlierOne:
    """In a program that runs again."""

    async def test_is_recorded_if_the_program_ends_meanwhile(self) -> None:
        calls, steps = execution(), Steps()
        earlier = ToolCall(calls.execution_id, 1, "github", "list-issues", {}, CallKey("github", "list-issues", "", 1))
        outcome = CallOutcome(CallStatus.SUCCEEDED, 1.0)
        past = [CallRecord(earlier, Allow("test"), 1.0, outcome, ended_at=2.0)]
        calls.resumed = ResumedCalls(past, effect_of=lambda _, __: Effect.READS, unknown="fail")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway(steps).call, calls, "github", "create_issue", {"title": "Bug"})
            await anyio.wait_all_tasks_blocked()
            assert steps.steps == ["begin", "send"], "control: it waits"
            tasks.cancel_scope.cancel()
        assert steps.steps == ["begin", "send", "end succeeded"]


class TestARecordThatFails:
    async def test_at_the_beginning_stops_the_call(self) -> None:
        steps, calls = Steps(failing_step="begin"), execution()
        with pytest.raises(JournalUnavailable, match="the disk is gone"):
            await gateway(steps, [steps.on_event]).call(calls, "github", "create_issue", {"title": "Bug"})
        await checkpoint()
        assert steps.steps == ["CallBegan", "CallSending", "CallEnded"], "nothing was sent, and the span is closed"

    @pytest.mark.parametrize("error", [None, ToolFailed("boom")])
    async def test_at_the_end_is_raised_and_the_call_is_reported(self, error: Exception | None) -> None:
        steps, calls = Steps(failing_step="end", upstream_error=error), execution()
        with pytest.raises(JournalUnavailable):
            await gateway(steps).call(calls, "github", "create_issue", {"title": "Bug"})
        assert [report.status for report in calls.reports] == [CallStatus.FAILED if error else CallStatus.SUCCEEDED]
        assert calls.in_flight == {}

    async def test_of_a_call_that_reads_does_not_claim_that_nothing_was_sent(self) -> None:
        """It is sent while it is being recorded; that it only reads is the claim of its server."""
        steps, calls = Steps(failing_step="commit"), execution()
        with pytest.raises(JournalUnavailable):
            await gateway(steps).call(calls, "github", "list-issues", {})
        assert steps.steps == ["begin", "send"]
        assert [report.status.may_have_been_sent for report in calls.reports] == [True]


class TestACallThatItsProgramGivesUp:
    @pytest.mark.parametrize(
        ("stops_at", "status", "error"),
        [
            ("before", CallStatus.UNSENT, "the program stopped waiting before it was sent"),
            (
                "after",
                CallStatus.CANCELLED,
                "no answer before the program stopped waiting; whether tool 'create-issue' acted is not known",
            ),
        ],
    )
    async def test_has_perhaps_acted_only_if_it_was_sent(self, stops_at: str, status: CallStatus, error: str) -> None:
        """A server may take half a minute to start. The person is asked about what may have arrived, once the program
        is resumed."""

        class Slow(RecordingUpstreams):
            async def call_tool(self, *args: Any, progress: CallProgress, **more: Any) -> Reply:
                if stops_at == "after":
                    progress.begin_attempt()
                await anyio.sleep_forever()
                raise AssertionError

        steps, calls = Steps(), execution()
        steps.upstreams = Slow(steps)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway(steps).call, calls, "github", "create_issue", {"title": "Bug"})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert steps.steps == ["begin", f"end {status}"]
        assert [(report.status, report.error) for report in calls.reports] == [(status, error)]

    async def test_while_its_person_is_to_sign_in_has_not_acted(self) -> None:
        """Its server has refused it for the lack of a sign-in."""

        class Offers:
            async def offer(self, calls: ExecutionCalls, server: str) -> None:
                await anyio.sleep_forever()

        steps, calls, config = Steps(upstream_error=SignInRequired("sign in first")), execution(), LiveConfig()
        one = gateway_of(lambda: CATALOG, steps.upstreams, steps.journal, config, sign_ins=Offers())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.call, calls, "github", "create_issue", {"title": "Bug"})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert steps.steps == ["begin", "send", "end not_sent"]

    async def test_while_it_is_announced_is_announced_at_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steps, calls, is_first = Steps(), execution(), True

        async def busy(work: Any, *args: Any) -> Any:
            nonlocal is_first
            if work is payload and is_first:
                is_first = False
                await anyio.sleep_forever()
            return work(*args)

        monkeypatch.setattr(kernel, "run_large", busy)
        bug = {"title": "x" * 200_000}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway(steps, [steps.on_event]).call, calls, "github", "create_issue", bug)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await checkpoint()
        assert steps.steps == ["CallBegan", "end not_sent", "CallEnded"]


async def test_an_error_of_our_own_is_not_recorded_as_a_program_that_stopped_waiting() -> None:
    steps, calls = Steps(upstream_error=RuntimeError("a bug")), execution()
    with pytest.raises(RuntimeError):
        await gateway(steps).call(calls, "github", "create_issue", {"title": "Bug"})
    assert steps.steps == ["begin", "send", "end unknown"]
    (report,) = calls.reports
    assert report.error == "internal error of codemode-server; whether tool 'create-issue' acted is not known"


class TestTheKey:
    async def keys(self, arguments: Sequence[dict[str, Any]]) -> set[CallKey]:
        events: list[CallEvent] = []
        one, calls = gateway(Steps(), [events.append]), execution()
        async with anyio.create_task_group() as tasks:
            for these in arguments:
                tasks.start_soon(one.call, calls, "github", "create_issue", these)
        return {event.call.key for event in events if isinstance(event, CallBegan)}

    async def test_does_not_depend_on_the_order_in_which_calls_arrive(self) -> None:
        arguments = [{"title": f"{number % 4}"} for number in range(12)]
        keys = await self.keys(arguments)
        assert len(keys) == 12, "control: each call has a key of its own"
        random.Random(7).shuffle(arguments)
        assert await self.keys(arguments) == keys

    def test_does_not_depend_on_the_order_of_the_arguments_names(self) -> None:
        assert arguments_digest({"a": {"x": 1, "y": 2}, "b": "é"}) == arguments_digest(
            {"b": "é", "a": {"y": 2, "x": 1}}
        )
        assert arguments_digest({"a": 1}) != arguments_digest({"a": "1"})
