"""Who answers a question, once and for whom: the approver with its store and channels that a test holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.approvals import Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.calls import Allow, Ask, Deny, Recorded, ToolCall, arguments_digest
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.approvals.approver import PersonApprover
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from tests.waiting import until

ASK = Ask("rule 1 of permissions.rules (ask: github)")
YES = ApprovalAnswer(True, channel="test")


def target(description: str = "Create an issue.") -> ToolTarget:
    tool = ToolDefinition("create_issue", description, input_schema={"type": "object"})
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, (tool,))])
    return ToolTarget(catalog.server("github"), catalog.tool("github", "create_issue"))


def execution(name: str = "x1", session: str = "s1") -> ExecutionCalls:
    return ExecutionCalls(ExecutionId(name), Caller.of(Session(session), LiveConfig()))


def call(calls: ExecutionCalls, **arguments: Any) -> ToolCall:
    key = calls.next_key("github", "create_issue", arguments_digest(arguments))
    return ToolCall(calls.execution_id, calls.next_seq(), "github", "create_issue", arguments, key)


@dataclass
class Channel:
    """Waits for what the test answers; notes what was asked and withdrawn."""

    asked: list[Approval] = field(default_factory=list)
    withdrawn: list[Approval] = field(default_factory=list)
    _answers: dict[str, ApprovalAnswer | None] = field(default_factory=dict)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        self.asked.append(approval)
        self._wake()
        try:
            while approval.approval_id not in self._answers:
                await self._changed.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn.append(approval)
            raise
        return self._answers[approval.approval_id]

    async def wait_for(self, count: int) -> None:
        with anyio.fail_after(60):
            while len(self.asked) < count:
                await self._changed.wait()

    def answer(self, number: int, answer: ApprovalAnswer | None) -> None:
        self._answers[self.asked[number].approval_id] = answer
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class Broken:
    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        raise RuntimeError("no such window")


@dataclass
class Asking:
    """Calls that wait for the person, in the order in which they were made."""

    approver: PersonApprover
    tasks: Any
    decisions: dict[int, Allow | Deny | Recorded] = field(default_factory=dict)
    questions: set[int] = field(default_factory=set)
    """Numbers of the calls about which a person is asked."""
    _made: int = 0

    def begin(self, calls: ExecutionCalls, made: ToolCall, to: ToolTarget | None = None, ask: Ask = ASK) -> None:
        number, self._made = self._made, self._made + 1

        async def approve() -> None:
            self.decisions[number] = await self.approver.approve(calls, made, to or target(), ask, on_question)

        def on_question() -> None:
            self.questions.add(number)

        self.tasks.start_soon(approve)


class Store(ApprovalStore):
    """Raises `failure` from `answer` while one is set."""

    failure: Exception | None = None

    async def answer(
        self, approval_id: ApprovalId, answer: ApprovalAnswer, *, replaces_refusal: bool = False
    ) -> Approval | None:
        if self.failure is not None:
            raise self.failure
        return await super().answer(approval_id, answer, replaces_refusal=replaces_refusal)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(DatabaseThread(tmp_path)) as thread:
        yield Store(thread, JournalCipher(tmp_path))


@asynccontextmanager
async def asking(store: Store, *channels: Any) -> AsyncIterator[Asking]:
    approver = PersonApprover(store, LiveConfig(), channels)
    async with approver.open(), anyio.create_task_group() as tasks:
        yield Asking(approver, tasks)
        tasks.cancel_scope.cancel()


async def settled(it: Asking, count: int = 1) -> list[Allow | Deny | Recorded]:
    await until(lambda: len(it.decisions) >= count)
    return [it.decisions[number] for number in sorted(it.decisions)]


async def test_all_channels_are_asked_the_first_answer_holds_and_the_others_are_withdrawn(store: Store) -> None:
    first, second = Channel(), Channel()
    calls = execution()
    async with asking(store, first, Broken(), second) as it:
        it.begin(calls, call(calls, owner="ada"))
        await first.wait_for(1)
        await second.wait_for(1)
        second.answer(0, replace(YES, is_approved=False, reason="no"))
        (decision,) = await settled(it)
    assert decision == Deny("the user refused it: no")
    assert [one.approval_id for one in first.withdrawn] == [first.asked[0].approval_id]


async def test_a_program_that_runs_again_uses_the_answer_and_joins_the_open_question(store: Store) -> None:
    """After the product was killed, or ended: the first two calls were answered, the third was open."""
    channel = Channel()
    calls = execution()
    async with asking(store, channel) as it:
        for number in range(3):
            it.begin(calls, call(calls, number=number))
        await channel.wait_for(3)
        channel.answer(0, YES)
        channel.answer(1, ApprovalAnswer(False, reason="no", channel="test"))
        await settled(it, 2)
        open_question = channel.asked[2].approval_id
        it.approver._is_ending = True
    again, second = execution(), Channel()
    async with asking(store, second) as it:
        for number in range(3):
            it.begin(again, call(again, number=number))
        await second.wait_for(1)
        first, refused = await settled(it, 2)
        assert isinstance(first, Allow)
        assert refused == Deny("the user refused it: no")
        assert [one.approval_id for one in second.asked] == [open_question]
        second.answer(0, YES)
        assert isinstance((await settled(it, 3))[2], Allow)


NO = ApprovalAnswer(False, channel="test")


@pytest.mark.parametrize(
    ("first", "second", "is_asked"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": 1}, {"a": True}, True),
        ({"a": 1}, {"a": "1"}, True),
        ({"a": [1, None]}, {"a": [1]}, True),
        ({"a": "x", "page": 1}, {"a": "x", "page": 2}, True),
    ],
)
async def test_a_call_that_says_the_same_as_a_refused_one_is_refused_without_a_question(
    store: Store, first: dict[str, Any], second: dict[str, Any], *, is_asked: bool
) -> None:
    channel, calls, to = Channel(), execution(), target()
    async with asking(store, channel) as it:
        it.begin(calls, call(calls, **first), to)
        await channel.wait_for(1)
        channel.answer(0, NO)
        await settled(it)
        it.begin(calls, call(calls, **second), to)
        if is_asked:
            await channel.wait_for(2)
            return
        _, again = await settled(it, 2)
        name = channel.asked[0].approval_id
        advice = f"Only the user can allow it: codemode-server approvals approve {name}"
        assert again == Deny("the user refused it, and is not asked again", advice)
        assert it.questions == {0}
        await store.answer(name, YES, replaces_refusal=True)
        for number in (2, 3):
            it.begin(calls, call(calls, **second), to)
            if number == 2:
                assert isinstance((await settled(it, 3))[2], Allow), "the person has allowed it after all"
        await channel.wait_for(2)  # which holds for one call


async def test_who_is_served_over_http_is_told_who_can_run_the_commands(store: Store) -> None:
    channel, local = Channel(), execution()
    served = Caller(Principal(PrincipalId("ann@example.org")), Session("s2"), LiveConfig())
    remote = ExecutionCalls(ExecutionId("x2"), served)
    async with asking(store, channel) as it:
        for number, calls in enumerate((local, remote), 1):
            it.begin(calls, call(calls), target())
            await channel.wait_for(number)
    commands = [f"codemode-server approvals approve {asked.approval_id}" for asked in channel.asked]
    whose = "by whoever runs codemode-server, with CODEMODE_PRINCIPAL=ann@example.org: "
    assert [*local.approvals.questions.values()] == [commands[0]]
    assert [*remote.approvals.questions.values()] == [whose + commands[1]]


async def test_equal_calls_at_once_are_asked_about_one_by_one_and_share_a_refusal(store: Store) -> None:
    channel, calls = Channel(), execution()
    async with asking(store, channel) as it:
        for owner in ("ann", "ann", "ann", "bob"):
            it.begin(calls, call(calls, owner=owner))
        await channel.wait_for(2)
        await anyio.wait_all_tasks_blocked()
        assert len(channel.asked) == 2, "the control: another call does not wait"
        channel.answer(next(at for at, one in enumerate(channel.asked) if "bob" not in str(one.question)), NO)
        assert all(isinstance(one, Deny) for one in await settled(it, 3))
        await anyio.wait_all_tasks_blocked()
        assert len(it.decisions) == 3, "the control: a refusal says nothing about another call"


@pytest.mark.parametrize("outlives", [True, False])
async def test_a_question_outlives_its_program_if_that_will_run_again(store: Store, *, outlives: bool) -> None:
    channel = Channel()
    calls = execution()
    calls.approvals.outlive_program = outlives
    async with asking(store, channel) as it:
        it.begin(calls, call(calls, owner="ada"))
        await channel.wait_for(1)
        it.tasks.cancel_scope.cancel()
    assert bool(await store.unanswered(calls.caller.principal)) is outlives


async def test_a_call_is_not_sent_if_the_answer_can_not_be_stored(store: Store) -> None:
    channel, calls = Channel(), execution()
    approver = PersonApprover(store, LiveConfig(), [channel])
    failures: list[JournalUnavailable] = []

    async def approve() -> None:
        try:
            await approver.approve(calls, call(calls, owner="ada"), target(), ASK, lambda: None)
        except JournalUnavailable as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(approve)
        await channel.wait_for(1)
        store.failure = JournalUnavailable("the disk is full")
        channel.answer(0, YES)
    assert [str(error) for error in failures] == ["the disk is full"]
