"""How guardrails are asked: in order, within their time, and whatever goes wrong blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import anyio
import pytest

from codemode_server.domain.calls import Ask as AskPerson
from codemode_server.domain.calls import Deny
from codemode_server.features.guardrails import (
    Ask,
    Block,
    Change,
    GuardedCall,
    GuardedResult,
    Guardrail,
    Pass,
    ProgramResult,
)
from codemode_server.features.guardrails.asking import MAX_AT_ONCE, AskedGuardrail
from codemode_server.features.guardrails.chain import GuardrailChain
from codemode_server.features.guardrails.testing import GuardrailProbe, guarded_call

CALL = guarded_call("mail/send", to="ada", body="hello")


class Scripted(Guardrail):
    """Answers a call with what a function of it gives."""

    def __init__(self, answer: Callable[[GuardedCall], Any]) -> None:
        super().__init__(None)
        self.answer = answer
        self.seen: list[dict[str, Any]] = []

    def before_call(self, call: GuardedCall) -> Any:
        self.seen.append(call.arguments)
        return self.answer(call)

    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        return self.answer(call)


class Quick(Scripted):
    needs_thread: ClassVar[bool] = False


def chain(*guardrails: Guardrail, timeout_s: float = 5.0) -> GuardrailChain:
    return GuardrailChain([AskedGuardrail(f"g{n}", it, timeout_s) for n, it in enumerate(guardrails)])


def set_to(name: str) -> Scripted:
    return Scripted(lambda call: Change({**call.arguments, "to": name}, f"to {name}"))


async def test_each_guardrail_sees_what_those_before_it_have_changed() -> None:
    first, second, third = set_to("bob"), set_to("eve"), Scripted(lambda _: Pass())
    found = await chain(first, second, third).before_call(CALL)
    assert [it.seen[0]["to"] for it in (first, second, third)] == ["ada", "bob", "eve"]
    assert found.value == {"to": "eve", "body": "hello"}
    assert found.changes == ("changed by guardrail 'g0': to bob", "changed by guardrail 'g1': to eve")
    assert CALL.arguments["to"] == "ada"


async def test_questions_add_up_and_a_block_after_them_decides() -> None:
    asks = [Scripted(lambda _: Ask("a")), Scripted(lambda _: Ask("b"))]
    found = await chain(*asks).before_call(CALL)
    assert found.decision == AskPerson("guardrail 'g0' asks: a; guardrail 'g1' asks: b")
    blocked = await chain(*asks, Scripted(lambda _: Block("no"))).before_call(CALL)
    assert blocked.decision == Deny("guardrail 'g2': no")


def fail(_: GuardedCall) -> Any:
    raise RuntimeError("the list can't be read: secret-value")


@pytest.mark.parametrize("kind", [Scripted, Quick])
@pytest.mark.parametrize(
    "answer",
    [
        fail,
        lambda _: None,
        lambda _: True,
        lambda _: Change("text", "no dict"),
        lambda _: Change({1: 2}, "a key that is no text"),
        lambda _: Change({"a": {1, 2}}, "no JSON"),
        lambda _: Change({"a": object()}, "no JSON"),
    ],
)
async def test_one_that_fails_or_gives_no_verdict_blocks(kind: type[Scripted], answer: Callable[..., Any]) -> None:
    verdict = await GuardrailProbe(kind(answer)).call(CALL)
    assert isinstance(verdict, Block)
    assert "secret-value" not in verdict.reason
    assert await GuardrailProbe(kind(lambda _: Pass())).call(CALL) == Pass(), "control"


class TestOneThatHangs:
    async def test_blocks_once_its_time_is_up_and_the_event_loop_goes_on(self) -> None:
        may_end, turns = threading.Event(), 0
        probe = GuardrailProbe(Scripted(lambda _: (may_end.wait(), Pass())[1]), timeout_s=1.0)

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            verdict = await probe.call(CALL)
            tasks.cancel_scope.cancel()
        may_end.set()
        assert isinstance(verdict, Block)
        assert "no answer within 1 s" in verdict.reason
        assert turns > 3

    async def test_takes_a_bounded_number_of_threads(self) -> None:
        may_end, began = threading.Event(), list[GuardedCall]()

        def hang(call: GuardedCall) -> Any:
            began.append(call)
            may_end.wait()
            return Pass()

        probe = GuardrailProbe(Scripted(hang), timeout_s=1.0)
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * MAX_AT_ONCE):
                tasks.start_soon(probe.call, CALL)
        assert len(began) == MAX_AT_ONCE
        may_end.set()
        with anyio.fail_after(60):
            while await probe.call(CALL) != Pass():
                await anyio.sleep(0.01)


class TestResults:
    async def test_a_question_about_a_result_blocks_since_it_is_too_late_for_one(self) -> None:
        verdict = await GuardrailProbe(Scripted(lambda _: Ask("may it?"))).answer(CALL, 1)
        assert isinstance(verdict, Block)

    async def test_the_result_of_a_program_is_changed_as_a_whole(self) -> None:
        class Quiet(Guardrail):
            def on_result(self, program: Any, result: ProgramResult) -> Any:
                return Change(ProgramResult(result.value), "nothing printed")

        found = await GuardrailProbe(Quiet(None)).result(1, stdout="text")
        assert isinstance(found, Change)
        assert found.value == ProgramResult(1)


async def test_a_guardrail_for_some_tools_is_not_asked_about_others() -> None:
    probe = GuardrailProbe(Scripted(lambda _: Block("no")), tools=("bank/*", "mail/send"))
    assert isinstance(await probe.call(CALL), Block)
    assert await probe.call(guarded_call("mail/read")) == Pass()
