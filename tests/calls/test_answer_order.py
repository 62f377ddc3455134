"""When a program that runs again gets an answer: after those that came before it in its earlier run."""

from __future__ import annotations

import anyio
import pytest

from codemode_server.calls.expected_calls import MIN_PATIENCE_SECONDS
from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, ToolCall
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.features.resume.answer_order import AnswerOrder


def key(name: str) -> CallKey:
    return CallKey("diary", "write", name, 1)


def record(name: str, began: float, ended: float | None, status: CallStatus = CallStatus.SUCCEEDED) -> CallRecord:
    call = ToolCall(ExecutionId("x1"), 1, "diary", "write", {}, key(name))
    outcome = CallOutcome(status, 1.0) if ended is not None else None
    return CallRecord(call, Allow("test"), began, outcome, ended_at=ended)


async def arrived(order: AnswerOrder, *names: str) -> list[str]:
    """The order in which the answers to these calls, which are all there at once, arrive."""
    found: list[str] = []

    async def answer(name: str) -> None:
        await order.wait(key(name))
        order.note_answered(key(name))
        found.append(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name in names:
                order.note_made(key(name))
                tasks.start_soon(answer, name)
    return found


async def test_answers_arrive_in_their_order_and_new_ones_last() -> None:
    order = AnswerOrder([record("a", 1, 9), record("b", 2, 5), record("c", 3, 7)])
    assert await arrived(order, "new", "a", "b", "c") == ["b", "c", "a", "new"]


async def test_refusals_and_lost_answers_have_their_place_too() -> None:
    records = [record("a", 1, 3), record("refused", 2, 2, CallStatus.REFUSED), record("lost", 1, 4, CallStatus.UNKNOWN)]
    assert await arrived(AnswerOrder(records), "a", "lost", "refused") == ["refused", "a", "lost"]


@pytest.mark.parametrize("ended", [None, 5.0])
async def test_a_call_whose_answer_the_program_did_not_get_comes_last(ended: float | None) -> None:
    records = [record("open", 1, ended, CallStatus.CANCELLED), record("a", 2, 9)]
    assert await arrived(AnswerOrder(records), "open", "a") == ["a", "open"]


async def test_a_call_that_several_runs_made_has_the_place_of_the_first() -> None:
    """In the second run its answer arrived there too, although it is recorded later."""
    records = [record("a", 1, 3, CallStatus.TIMED_OUT), record("b", 2, 4), record("a", 50, 60)]
    assert await arrived(AnswerOrder(records), "b", "a") == ["a", "b"]


async def test_a_call_that_is_made_no_more_is_waited_for_once() -> None:
    gone = [record(f"gone {number}", 1, 2 + number / 50) for number in range(50)]
    began = anyio.current_time()
    assert await arrived(AnswerOrder([*gone, record("a", 4, 5)]), "a") == ["a"]
    assert 0.9 * MIN_PATIENCE_SECONDS < anyio.current_time() - began < 40 * MIN_PATIENCE_SECONDS


async def test_the_program_may_take_as_long_as_it_took() -> None:
    order = AnswerOrder([record("a", 10, 11), record("b", 10, 20), record("after 4 seconds", 15, 16)])
    assert order.patience == MIN_PATIENCE_SECONDS, "the first call"
    for name in "ab":
        order.note_made(key(name))
    assert order.patience == MIN_PATIENCE_SECONDS + 2 * 4
    order.note_made(key("after 4 seconds"))
    assert order.patience == MIN_PATIENCE_SECONDS, "none is expected"
    order = AnswerOrder([record("a", 10, 11), record("after an hour with a person", 3_611, 3_612)])
    order.note_made(key("a"))
    assert order.patience < 100
