"""A limit lets through as many calls as it says, on both databases; then it denies. The proof is what reached the
server, and the control of each is a call that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, Deny, ToolCall, arguments_digest
from codemode_server.domain.errors import CallRefused, DecisionOutdated, InvalidArguments
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.resume.resumed_calls import ResumedCalls
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.support.redaction import NO_SECRETS
from tests.calls.gateways import gateway_of
from tests.memory.upstreams import MemoryUpstreams

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = (
    ToolDefinition("send", input_schema=TEXT),
    ToolDefinition("draft", input_schema=TEXT),
    ToolDefinition("inbox", input_schema={"type": "object"}, effect=Effect.READS),
)
CATALOG = Catalog.build([UpstreamListing("mail", UpstreamState.READY, TOOLS)])


def settings(*rules: dict[str, str], per_minute: int = 0) -> Settings:
    return Settings.model_validate(
        {
            "permissions": {"rules": list(rules)},
            "limits": {"calls_per_minute": per_minute},
            "servers": {"mail": {"command": "x"}},
        }
    )


class Product:
    """A gateway whose journal has a clock of its own."""

    def __init__(self, thread: DatabaseThread, folder: Path, given: Settings, approver: object = None) -> None:
        self.now = 1_000_000.0
        self.config = LiveConfig(given)
        self.upstreams = MemoryUpstreams("done")
        journal = Journal(thread, JournalCipher(folder), Audit(thread), clock=lambda: self.now)
        self.events: list[str] = []
        self._gateway = gateway_of(
            lambda: CATALOG,
            self.upstreams,
            journal,
            self.config,
            approver=approver,
            subscribers=[lambda event: self.events.append(type(event).__name__)],
        )
        self._executions = 0

    def execution(self, principal: str = "me") -> ExecutionCalls:
        self._executions += 1
        caller = Caller(Principal(PrincipalId(principal)), Session("s1"), self.config)
        return ExecutionCalls(ExecutionId(f"{principal}-{self._executions}-{id(self)}"), caller)

    def edit(self, *rules: dict[str, str]) -> None:
        self.config.replace(settings(*rules), NO_SECRETS)

    async def call(self, calls: ExecutionCalls, tool: str = "send", **arguments: Any) -> str:
        """Empty if it was let through, else why not."""
        try:
            await self._gateway.call(calls, "mail", tool, arguments)
        except CallRefused as error:
            return str(error)
        return ""

    async def let_through(self, calls: ExecutionCalls, count: int, tool: str = "send") -> list[bool]:
        return [not await self.call(calls, tool) for _ in range(count)]


Make = Callable[..., Product]


@pytest.fixture
def product(thread: DatabaseThread, tmp_path: Path) -> Make:
    def make(*rules: dict[str, str], per_minute: int = 0, approver: object = None) -> Product:
        return Product(thread, tmp_path, settings(*rules, per_minute=per_minute), approver)

    return make


@pytest.fixture
def restarted(place: DatabasePlace, tmp_path: Path) -> Iterator[Make]:
    """A product that is started anew on the same database."""
    with closing(DatabaseThread(place)) as thread:
        yield lambda *rules: Product(thread, tmp_path, settings(*rules))


@pytest.mark.parametrize("tool", ["send", "inbox"])
async def test_calls_beyond_it_are_denied_with_the_limit_in_the_reason(product: Make, tool: str) -> None:
    it = product({"allow": "mail", "limit": "2/minute"})
    calls = it.execution()
    assert await it.let_through(calls, 2, tool) == [True, True]
    it.now += 20.5
    assert await it.call(calls, tool) == (
        f"mail.{tool} is not permitted: rule 1 of permissions.rules (allow: mail, limit: 2/minute): its limit of "
        "2/minute is reached; the next call is possible in 40 s"
    )
    assert len(it.upstreams.reached) == 2
    with anyio.fail_after(60):
        while it.events.count("CallEnded") < 3:
            await anyio.sleep(0.01)
    assert it.events.count("CallSending") == 2, "nobody takes it for one that was sent, and for data that was read"


async def test_each_call_counts_for_the_time_of_the_limit(product: Make) -> None:
    it = product({"allow": "mail", "limit": "2/minute"})
    calls = it.execution()
    await it.call(calls)
    it.now += 30
    assert await it.let_through(calls, 2) == [True, False]
    it.now += 30
    assert await it.let_through(calls, 4) == [True, False, False, False]
    it.now += 30
    assert await it.let_through(calls, 1) == [True], "denied calls do not count"


async def test_a_restart_keeps_the_count(product: Make, restarted: Make) -> None:
    rule = {"allow": "mail", "limit": "3/day"}
    before = product(rule)
    assert await before.let_through(before.execution(), 2) == [True, True]
    after = restarted(rule)
    assert await after.let_through(after.execution(), 2) == [True, False]
    after.now += 86_401
    assert await after.let_through(after.execution(), 1) == [True], "control"


async def test_a_limit_for_an_execution_starts_anew_with_the_next(product: Make) -> None:
    it = product({"allow": "mail", "limit": "1/execution"})
    calls = it.execution()
    assert await it.let_through(calls, 1) == [True]
    assert "limit of 1/execution is reached; the next call is possible in another program" in await it.call(calls)
    assert await it.let_through(it.execution(), 1) == [True]


async def test_a_limit_for_a_time_holds_for_all_executions_of_a_principal_and_no_other_s(product: Make) -> None:
    it = product({"allow": "mail", "limit": "1/hour"})
    assert await it.let_through(it.execution("me"), 1) == [True]
    assert await it.let_through(it.execution("me"), 1) == [False]
    assert await it.let_through(it.execution("you"), 1) == [True]


async def test_a_call_that_another_limit_denies_does_not_count(product: Make) -> None:
    it = product({"allow": "mail/send", "limit": "2/hour"}, per_minute=1)
    calls = it.execution()
    assert await it.let_through(calls, 1) == [True]
    assert "limits.calls_per_minute is 1; the next call is possible in 60 s" in await it.call(calls)
    it.now += 60
    assert await it.let_through(calls, 1) == [True]
    it.now += 60
    assert "its limit of 2/hour is reached" in await it.call(calls), "control"


@pytest.mark.parametrize("time", ["hour", "execution"])
async def test_a_call_that_something_else_denies_does_not_count(product: Make, time: str) -> None:
    it = product({"deny": "mail/send", "when": "'text' in args"}, {"allow": "mail", "limit": f"1/{time}"})
    calls = it.execution()
    assert "(deny: mail/send" in await it.call(calls, text="hello")
    with pytest.raises(InvalidArguments):
        await it.call(calls, "draft", text=1)
    assert await it.let_through(calls, 2) == [True, False]


async def test_what_an_earlier_run_made_exceeds_none_and_counts_for_the_execution(product: Make) -> None:
    for time, denied in (("execution", True), ("hour", False)):
        it = product({"allow": "mail", "limit": f"1/{time}"})
        calls = it.execution()
        past = []
        for occurrence in (1, 2):
            key = CallKey("mail", "inbox", arguments_digest({}), occurrence)
            made = ToolCall(calls.execution_id, occurrence, "mail", "inbox", {}, key)
            outcome = CallOutcome(CallStatus.SUCCEEDED, 1.0, result="done")
            past.append(CallRecord(made, Allow("test"), 1.0, outcome, ended_at=2.0))
        calls.resumed = ResumedCalls(past, effect_of=lambda _, __: Effect.READS, unknown="fail")
        assert await it.let_through(calls, 2, "inbox") == [True, True]
        assert it.upstreams.reached == [], "control: they were answered from the record"
        assert bool(await it.call(calls, "inbox")) is denied


async def test_an_edit_that_leaves_a_rule_as_it_is_forgets_no_calls(product: Make) -> None:
    it = product({"allow": "mail", "limit": "1/hour"})
    calls = it.execution()
    await it.call(calls)
    it.edit({"deny": "slack"}, {"allow": "mail", "limit": "1/hour"})
    assert await it.let_through(calls, 1) == [False]
    it.edit({"allow": "mail", "limit": "1/minute"})
    assert await it.let_through(calls, 1) == [True], "control: another limit counts anew"


@pytest.mark.parametrize("time", ["hour", "execution"])
async def test_an_edit_of_the_number_forgets_no_calls(product: Make, time: str) -> None:
    it = product({"allow": "mail", "limit": f"1/{time}"})
    calls = it.execution()
    await it.call(calls)
    it.edit({"allow": "mail", "limit": f"3/{time}"})
    assert await it.let_through(calls, 3) == [True, True, False]
    it.edit({"allow": "mail", "limit": f"2/{time}"})
    assert await it.let_through(calls, 1) == [False]


@pytest.mark.parametrize("brought", ["3/hour", "3/execution"])
async def test_a_call_that_is_decided_again_counts_once_for_each_limit_and_for_one_that_an_edit_brought(
    product: Make, brought: str
) -> None:
    it = product({"allow": "mail", "limit": "3/minute"})
    calls = it.execution()

    class Edited(MemoryUpstreams):
        async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
            if len(it.upstreams.reached) == 1:
                it.edit({"allow": "mail", "limit": brought})
            if len(it.upstreams.reached) <= 2:
                raise DecisionOutdated("upstream.yaml was edited")

    edited = Edited()
    it.upstreams.respond = edited.respond  # type: ignore[method-assign]
    assert await it.let_through(calls, 1) == [True]
    assert len(it.upstreams.reached) == 3, "control"
    assert await it.let_through(calls, 3) == [True, True, False]
    it.edit({"allow": "mail", "limit": "3/minute"})
    assert await it.let_through(calls, 3) == [True, True, False]


async def test_a_rule_may_be_longer_than_a_key_of_the_database(product: Make) -> None:
    long = " || ".join(f"args.text == 'é{number}'" for number in range(90))
    everybody = [f"somebody-{number}" for number in range(900)]
    it = product({"allow": "mail", "when": long, "principals": ["me", *everybody], "limit": "1/hour"})
    calls = it.execution()
    assert not await it.call(calls, text="é7")
    assert "limit of 1/hour is reached" in await it.call(calls, text="é7")


class TestAPerson:
    async def test_who_refuses_a_call_leaves_the_limit_to_others(self, product: Make) -> None:
        it = product({"ask": "mail", "limit": "1/minute"})
        calls = it.execution()
        assert ["nobody answers" in await it.call(calls) for _ in range(2)] == [True, True]

    async def test_is_not_asked_about_a_call_beyond_a_limit(self, product: Make) -> None:
        it = product({"ask": "mail/send"}, per_minute=1)
        calls = it.execution()
        await it.call(calls, "inbox")
        assert "calls_per_minute is 1; the next call is possible in 60 s" in await it.call(calls)
        assert calls.approvals.waiting == {}, "which notes each question"

    @pytest.mark.parametrize("limit", ["1/minute", "1/execution"])
    async def test_is_asked_about_as_many_calls_as_may_go_through(self, product: Make, limit: str) -> None:
        """They were asked up to twelve times, and eleven calls that they had approved were denied after that."""
        asked, refused = list[int](), list[str]()

        class Slow:
            async def approve(self, calls: Any, call: ToolCall, target: Any, ask: Any, on_question: Any) -> Any:
                asked.append(call.seq)
                while len(refused) < 11:
                    await anyio.sleep(0.01)
                return Deny("the user refused it") if len(asked) == 1 else Allow("the user approved it")

        it = product({"ask": "mail", "limit": limit}, approver=Slow())
        calls = it.execution()

        async def call() -> None:
            if denied := await it.call(calls):
                refused.append(denied)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(12):
                    tasks.start_soon(call)
            assert (asked, len(refused), it.upstreams.reached) == ([1], 12, [])
            await call()
            await call()
        assert (asked, len(refused), len(it.upstreams.reached)) == ([1, 13], 13, 1), "a refusal leaves it to others"

    async def test_who_approves_a_call_keeps_its_place_until_it_is_sent(self, product: Make) -> None:
        """A call that was approved and waits for another write is not refused for one that came later."""
        approved, goes_on = list[int](), anyio.Event()

        class Yes:
            async def approve(self, calls: Any, call: ToolCall, target: Any, ask: Any, on_question: Any) -> Any:
                approved.append(call.seq)
                return Allow("the user approved it")

        class Turn:
            async def acquire(self) -> None:
                await goes_on.wait()

            def release(self) -> None: ...

        it = product({"ask": "mail/send"}, per_minute=1, approver=Yes())
        it.upstreams.turn_to_write = lambda server: Turn()  # type: ignore[assignment,method-assign]
        calls, answers = it.execution(), list[str]()

        async def call() -> None:
            answers.append(await it.call(calls))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                while not approved:
                    await anyio.sleep(0.01)
                assert "the user is being asked" in await it.call(calls, "inbox")
                assert "the user is being asked" in await it.call(calls)
                goes_on.set()
        assert (approved, answers, len(it.upstreams.reached)) == ([1], [""], 1)


@pytest.mark.parametrize("limit", ["2/hour", "2/execution"])
async def test_a_limit_holds_for_calls_at_the_same_time(product: Make, limit: str) -> None:
    it = product({"allow": "mail", "limit": limit})
    calls, refused = it.execution(), list[str]()

    async def call(tool: str) -> None:
        if denied := await it.call(calls, tool):
            refused.append(denied)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(call, TOOLS[number % 3].name)
    assert (len(refused), len(it.upstreams.reached)) == (4, 2)
