"""Calls that wait: a program's own memory holds them, not the host's, and a program that does not keep to it is not
read any further. Values are counted before a frame is parsed.

The guests of the second half are scripted: they say what no honest guest says.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream

from codemode_server.domain.ids import ExecutionId
from codemode_server.processes.stream_readers import FrameReader
from codemode_server.sandbox import frames
from codemode_server.sandbox.channel import Channel
from codemode_server.sandbox.contract import Ending, Limits, Outcome, Program, Reply
from codemode_server.support.json_values import MAX_VALUES
from tests.sandbox.lab import Lab, Tools

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

MIB = 2**20
ECHO = "from servers.github import echo\n"
TOO_MANY = f"[[]] * {MAX_VALUES}"


async def test_a_forged_call_with_too_many_values_ends_the_program_unparsed(lab: Lab) -> None:
    tools = Tools()
    head = '{"op":"call","id":1,"server":"github","tool":"echo","arguments":{"x":['
    code = f"{lab.raw}raw.send({head!r} + '[],' * {MAX_VALUES} + ']}}}}')\nimport time\ntime.sleep(60)"
    assert (await lab.failure(code, tools)).type == "LimitExceeded"
    assert tools.calls == []


@pytest.mark.portable
@pytest.mark.parametrize("code", [f"[0] * {MAX_VALUES + 1}", f"{ECHO}echo(x={TOO_MANY})"])
async def test_too_many_values_end_the_program_with_their_number(lab: Lab, code: str) -> None:
    tools = Tools()
    error = await lab.failure(code, tools)
    assert (error.type, error.setting, tools.calls) == ("LimitExceeded", None, [])
    assert f"more than {MAX_VALUES:,} values" in error.message
    assert "return a summary" in error.hint
    assert "no setting raises this limit" in error.hint
    assert await lab.value(f"[0] * {MAX_VALUES // 2}") == [0] * (MAX_VALUES // 2)


async def test_many_large_calls_at_once_all_arrive(lab: Lab) -> None:
    """The positive control of the next ones: together they are six times what may be on its way."""
    tools = Tools()
    code = (
        f"import asyncio\n{ECHO}found = await asyncio.gather(*[echo(n=n, x='a' * {MIB}) for n in range(30)])\n"
        "[it['n'] for it in found]"
    )
    assert await lab.value(code, tools, call_bytes=5 * MIB) == list(range(30))


@pytest.mark.portable
@pytest.mark.parametrize(("seconds", "answered_after_s", "made"), [(0.1, 1.5, 2), (30, 0.05, 10)])
async def test_a_call_that_is_cancelled_while_it_waits_for_its_turn_is_not_made(
    lab: Lab, seconds: float, answered_after_s: float, made: int
) -> None:
    class Slow(Tools):
        async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
            await anyio.sleep(answered_after_s)
            return Reply(arguments)

    tools = Slow()
    code = f"""
import asyncio
{ECHO}
try:
    async with asyncio.timeout({seconds}):
        await asyncio.gather(*[echo(n=n) for n in range(10)])
except TimeoutError:
    pass
echo(n="last")["n"]
"""
    assert await lab.value(code, tools, calls_in_flight=2) == "last"
    assert len(tools.calls) == made + 1


@pytest.mark.portable
async def test_a_program_whose_calls_all_hang_still_searches_and_imports(lab: Lab) -> None:
    """The program has given them up; the host waits for the server until that is out of time."""

    class Hanging(Tools):
        async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
            await anyio.sleep_forever()
            raise AssertionError

    code = f"""
    import asyncio
    {ECHO}
    async def given_up(n):
        try:
            await asyncio.wait_for(echo(n=n), 0.5)
        except TimeoutError:
            return n
    from codemode import search_tools
    found = await asyncio.gather(*[given_up(n) for n in range(3)])
    search_tools("issue")
    found
    """
    assert await lab.value(code, Hanging(), calls_in_flight=3, wall_seconds=5.0) == [0, 1, 2]


class Guest(ByteReceiveStream, ByteSendStream):
    """Sends what it was given, then `done`."""

    def __init__(self, said: list[dict[str, Any]]) -> None:
        self._said = [frames.encode(frame) for frame in said]

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if self._said:
            return self._said.pop(0)
        done = {"op": "done", "value": 1, "value_form": "json", "error": None}
        return frames.encode(done)

    async def send(self, item: bytes) -> None:
        """Hears nothing."""

    async def aclose(self) -> None:
        """Nothing to close."""


def call(number: int, **arguments: Any) -> dict[str, Any]:
    return {"op": "call", "id": number, "server": "github", "tool": "echo", "arguments": arguments}


async def outcome_of(guest: Guest, tools: Tools, **limits: Any) -> Outcome:
    program = Program(ExecutionId("x0"), "", Limits(**limits))
    with anyio.fail_after(60):
        return await Channel(FrameReader(guest), guest, program, tools).run()


class Never(Tools):
    async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        await anyio.sleep_forever()
        raise AssertionError


async def test_the_arguments_of_calls_that_wait_for_upstreams_take_no_more_than_one_call_may() -> None:
    small, large = Never(), Never()
    guest = Guest([call(n, x="a" * MIB) for n in range(1, 20)])
    outcome = await outcome_of(guest, small, upstream_seconds=3)
    assert (outcome.ending, len(small.calls)) == (Ending.LIMITED, 15), "control: as many as have room"
    guest = Guest([call(n, x="a" * 9 * MIB) for n in range(1, 20)])
    outcome = await outcome_of(guest, large, upstream_seconds=1)
    assert (outcome.ending, len(large.calls)) == (Ending.LIMITED, 1)


async def test_small_values_count_by_the_memory_that_they_take() -> None:
    """`{}` is twenty times as large once it is parsed: sixteen such calls would take 250 MiB."""
    tools = Never()
    guest = Guest([call(n, x=[{}] * 200_000) for n in range(1, 17)])
    outcome = await outcome_of(guest, tools, upstream_seconds=2)
    assert (outcome.ending, len(tools.calls)) == (Ending.LIMITED, 1)


class Busy(Guest):
    """Reads no answer until `reads` is set, and says `done` once it has read all."""

    def __init__(self, said: list[dict[str, Any]]) -> None:
        super().__init__(said)
        self.reads, self.has_read = anyio.Event(), anyio.Event()
        self.calls = len(said)
        self.answers: list[dict[str, Any]] = []

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if not self._said:
            await self.has_read.wait()
        return await super().receive(max_bytes)

    async def send(self, item: bytes) -> None:
        if b'"op":"run"' in item[:100]:
            return
        await self.reads.wait()
        self.answers.append(json.loads(item[4:]))
        if len(self.answers) == self.calls:
            self.has_read.set()


async def test_results_that_a_program_does_not_read_are_dropped_once_they_are_too_much() -> None:
    """Sixteen of the largest took 256 MiB of the host for each program."""

    class Emojis(Tools):
        async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
            return Reply("\U0001f600" * 60_000)

    guest = Busy([call(n) for n in range(1, 101)])
    limits = {"calls_in_flight": 100, "call_bytes": 300_000}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(outcome_of, guest, Emojis(), **limits))
        await anyio.wait_all_tasks_blocked()
        guest.reads.set()
    results = [it for it in guest.answers if it["ok"]]
    error, *others = [it["message"] for it in guest.answers if not it["ok"]]
    assert (len(results), len(others)) == (16 * MIB // 240_000, 30)
    assert error.startswith("the result of github.echo is dropped, as 16,")
    assert error.endswith(" bytes of results wait to be read; await fewer calls at once")


async def test_a_sandbox_that_was_sent_half_an_answer_as_its_program_ended_is_not_used_again() -> None:
    class Leaving(Guest):
        """Says `done` when it has read the first answer, and has then no room for the second."""

        def __init__(self) -> None:
            super().__init__([call(1), call(2)])
            self.reads, self.leaves = anyio.Event(), anyio.Event()
            self.answers = 0

        async def receive(self, max_bytes: int = 65_536) -> bytes:
            if not self._said:
                await self.leaves.wait()
            return await super().receive(max_bytes)

        async def send(self, item: bytes) -> None:
            if b'"op":"run"' in item[:100]:
                return
            self.answers += 1
            await (anyio.sleep_forever() if self.answers == 2 else self.reads.wait())

    guest = Leaving()
    channel = Channel(FrameReader(guest), guest, Program(ExecutionId("x0"), "", Limits()), Tools())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.run)
            await anyio.wait_all_tasks_blocked()
            guest.reads.set()
            guest.leaves.set()
    assert channel.is_clean is (guest.answers < 2)
