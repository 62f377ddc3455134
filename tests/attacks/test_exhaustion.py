"""Threat: a model's programs use up the host: processes, memory, time, disk, or the JSON that leads back to it.

Rule: each limit ends the program that passed it, by name. After anything, the next program runs, no worker process is
left that should not be, and no temporary folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.kit import RAW, arrived, hostile, is_well, recorded, workers
from tests.behaviour.product import Answer, Host, configuration, in_memory

pytestmark = pytest.mark.slow


@asynccontextmanager
async def attacked(folder: Path, **limits: Any) -> AsyncIterator[Host]:
    """A product that has to be well after the attack, and leave nothing behind."""
    before, place = workers(), folder / "tmp"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))  # so that nobody else's folders are counted
        path = configuration(folder, hostile(folder, "plain"), limits=limits)
        async with in_memory(path) as host:
            await is_well(host)
            yield host
            await is_well(host)
            with anyio.fail_after(60):
                while len(workers() - before) > 1:  # the warm one
                    await anyio.sleep(0.05)
        assert list(place.iterdir()) == []
    assert workers() <= before


def as_sent(answer: Answer) -> str:
    """What goes over the wire to the host; it has to be JSON that anybody can read."""
    text = answer.result.model_dump_json(by_alias=True)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    json.dumps(answer.content, allow_nan=False, ensure_ascii=False).encode()
    return text


async def test_a_storm_of_cancellations_leaves_the_places_free(tmp_path: Path) -> None:
    """At every moment of a run: waiting for its turn, starting, computing, in a call."""

    async def one(host: Host, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await host.run("from servers.plain import act\nwhile True: act(how='slow')")

    async with attacked(tmp_path, programs=2, queue_seconds=10) as host:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(one, host, 0.01 + number * 0.02)
        for _ in range(4):
            await is_well(host)
    assert {row[3] for row in recorded(tmp_path)} <= {"succeeded", "cancelled", "not_sent"}


async def test_a_thousand_forged_calls_are_not_read_while_those_before_are_not_answered(tmp_path: Path) -> None:
    async with attacked(tmp_path, upstream_seconds=2) as host:
        answer = await host.run(
            RAW
            + """
for n in range(1, 1001):
    send(op="call", id=n, server="plain", tool="act", arguments={"how": "never"})
"started"
"""
        )
        assert answer.error["setting"] == "limits.upstream_seconds"
        assert len(as_sent(answer)) < 5_000
    assert len(arrived(tmp_path, "plain")) <= 16
    assert {row[3] for row in recorded(tmp_path)} <= {"cancelled", "not_sent"}


GIVEN_BACK: dict[str, tuple[str, str | None]] = {
    "plain, as the positive control": ("print('plain')", "succeeded"),
    "ANSI on stdout": ("print('\\x1b[31m\\x1b]0;t\\x07\\u202e' * 200_000)", "succeeded"),
    "half characters printed and returned": ("print('a\\ud800b')\n'x\\udfffy'", "succeeded"),
    "a long name raised": ("E = type('n' * 10**6, (Exception,), {})\nraise E('m' * 10**6)", "failed"),
    "numbers that JSON has not": ("[float('nan'), float('inf'), -float('inf')]", "succeeded"),
    "a long number as a key": ("{10 ** 5_000: 1}", None),
    "a long value": ("'v' * (5 * 2**20)", "succeeded"),
    "a dict without end": ("class R(dict):\n    def items(self): return iter(lambda: ('a', 1), None)\nR(a=1)", None),
    "an exit past everything": ("import os\nos._exit(0)", None),
    "recursion without end": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", None),
}
"""Program and status; None where it may be any."""


async def test_whatever_a_program_gives_back_is_json_for_the_host(tmp_path: Path) -> None:
    async with attacked(tmp_path, wall_seconds=4) as host:
        for title, (program, status) in GIVEN_BACK.items():
            answer = await host.run(program)
            assert status in (None, answer.content["status"]), (title, answer.text)
            assert len(as_sent(answer)) < 200_000, title
            assert "\x1b" not in answer.text, title
            await is_well(host)


DEEP = "x = []\nfor _ in range(10_000): x = [x]\n"
NESTED = {
    "returned": DEEP + "x",
    "sent": DEEP + "import codemode\ncodemode.call('plain', 'act', x=x)",
    "forged": RAW + 'raw.send(\'{"op":"output","stream":"stdout","text":\' + \'[\' * 10**5)',
}


async def test_a_value_nested_ten_thousand_deep_ends_its_program_at_most(tmp_path: Path) -> None:
    async with attacked(tmp_path) as host:
        for way, program in NESTED.items():
            answer = await host.run(program)
            assert answer.content["status"] in ("failed", "sandbox_failed", "succeeded"), way
            assert len(as_sent(answer)) < 50_000
    assert arrived(tmp_path, "plain") == []
