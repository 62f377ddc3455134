"""Threat: a model's programs use up the host: processes, memory, time, disk, or the JSON that leads back to it.

Rule: each limit ends the program that passed it, by name. After anything, the next program runs, no worker process is
left that should not be, and no temporary folder.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.kit import RAW, arrived, hostile, is_well, own_temporary_folder, recorded, workers
from tests.behaviour.product import Answer, Host, configuration, in_memory

pytestmark = pytest.mark.slow


@asynccontextmanager
async def attacked(folder: Path, **limits: Any) -> AsyncIterator[Host]:
    """A product that has to be well after the attack, and leave nothing behind."""
    before = workers()
    with own_temporary_folder(folder) as place:
        path = configuration(folder, hostile(folder, "plain"), limits=limits)
        async with in_memory(path) as host:
            await is_well(host)
            yield host
            await is_well(host)
            with anyio.fail_after(10):
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


async def test_fifty_programs_at_once_all_have_an_end(tmp_path: Path) -> None:
    endings: list[str] = []

    async def one(host: Host, number: int) -> None:
        answer = await host.run(f"import time\ntime.sleep(0.1)\n{number}")
        endings.append(answer.content["status"])

    async with attacked(tmp_path, programs=4, queue_seconds=60) as host, anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, host, number)
    assert endings == ["succeeded"] * 50


async def test_programs_that_never_end_do_and_those_that_wait_are_told(tmp_path: Path) -> None:
    endings: list[tuple[str, str]] = []

    async def one(host: Host) -> None:
        answer = await host.run("while True: pass")
        endings.append((answer.content["status"], answer.error["setting"]))

    async with (
        attacked(tmp_path, programs=2, wall_seconds=2, queue_seconds=0.5) as host,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(6):
            tasks.start_soon(one, host)
    assert (
        sorted(endings) == [("limit_exceeded", "limits.programs")] * 4 + [("limit_exceeded", "limits.wall_seconds")] * 2
    )


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
    assert {row[3] for row in recorded(tmp_path)} <= {"succeeded", "cancelled"}


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
    assert {row[3] for row in recorded(tmp_path)} <= {"cancelled"}


async def test_a_thousand_calls_that_nobody_waits_for_are_ended_with_the_program(tmp_path: Path) -> None:
    async with attacked(tmp_path) as host:
        answer = await host.run(
            """
import asyncio
from servers.plain import act
calls = [asyncio.create_task(act(how="never")) for n in range(1000)]
await asyncio.sleep(0.1)
"started"
"""
        )
        assert answer.value == "started"
        assert len(as_sent(answer)) < 5_000
    assert len(arrived(tmp_path, "plain")) <= 16
    assert {row[3] for row in recorded(tmp_path)} <= {"cancelled"}


GIVEN_BACK: dict[str, tuple[str, str | None]] = {
    "plain, as the positive control": ("print('plain')", "succeeded"),
    "ANSI on stdout": ("print('\\x1b[31m\\x1b]0;t\\x07\\u202e' * 200_000)", "succeeded"),
    "much on stderr": ("import sys\nfor _ in range(9): sys.stderr.write('e' * 2**20)", "succeeded"),
    "many small writes": ("for _ in range(100_000): print(end='x')", "succeeded"),
    "half characters printed and returned": ("print('a\\ud800b')\n'x\\udfffy'", "succeeded"),
    "half characters in a key": ("{'a\\ud800b': ['\\udfff']}", "succeeded"),
    "half a character raised": ("raise ValueError('a\\ud800b')", "failed"),
    "a long name raised": ("E = type('n' * 10**6, (Exception,), {})\nraise E('m' * 10**6)", "failed"),
    "half a character in a file's name": ("open('/workspace/a\\ud800b', 'w')", "failed"),
    "half characters sent": ("import codemode\ncodemode.call('plain', 'act', {'\\ud800': '\\udfff'})", "succeeded"),
    "numbers that JSON has not": ("[float('nan'), float('inf'), -float('inf')]", "succeeded"),
    "a long number": ("10 ** 10_000", "succeeded"),
    "a number just short enough": ("-(10 ** 4_000)", "succeeded"),
    "a long number as a key": ("{10 ** 5_000: 1}", None),
    "odd keys": ("{'k' * 10**6: 1, ('t',): 2, None: 3}", "succeeded"),
    "120 deep": ("x = []\nfor _ in range(120): x = [x]\nx", "succeeded"),
    "within itself": ("x = []\nx.append(x)\nx", "succeeded"),
    "a long value": ("'v' * (5 * 2**20)", "succeeded"),
    "a repr that ends the program": ("class R:\n    def __repr__(self): raise SystemExit('no')\nR()", None),
    "a dict without end": ("class R(dict):\n    def items(self): return iter(lambda: ('a', 1), None)\nR(a=1)", None),
    "an interrupt": ("raise KeyboardInterrupt", "failed"),
    "a long exit": ("import sys\nsys.exit('x' * 10**6)", "failed"),
    "an exit past everything": ("import os\nos._exit(0)", None),
    "recursion without end": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", None),
    "many errors at once": (
        "raise ExceptionGroup('g', [ExceptionGroup('g', [ValueError(n)]) for n in range(5_000)])",
        "failed",
    ),
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


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("x = []\nfor _ in range(10_000): x = [x]\nx", id="returned"),
        pytest.param("x = []\nfor _ in range(10_000): x = [x]\nprint(x)", id="printed"),
        pytest.param(
            "x = []\nfor _ in range(10_000): x = [x]\nimport codemode\ncodemode.call('plain', 'act', x=x)", id="sent"
        ),
        pytest.param(RAW + 'raw.send(\'{"op":"output","stream":"stdout","text":\' + \'[\' * 10**5)', id="forged"),
    ],
)
async def test_a_value_nested_ten_thousand_deep_ends_its_program_at_most(tmp_path: Path, program: str) -> None:
    async with attacked(tmp_path) as host:
        answer = await host.run(program)
        assert answer.content["status"] in ("failed", "sandbox_failed", "succeeded")
        assert len(as_sent(answer)) < 50_000
    assert arrived(tmp_path, "plain") == []


async def test_a_program_that_shows_without_end_is_bounded_in_the_answer_and_on_the_disk(tmp_path: Path) -> None:
    code = """
from codemode import show
shown = 0
try:
    while True:
        show(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(200_000), name="x" * 400)
        shown += 1
except ValueError as error:
    print(error)
shown
"""
    async with attacked(tmp_path, kept_mb=2) as host:
        answer = await host.run(code)
        assert answer.value == 64
        assert "64 files" in answer.content["stdout"]
        assert len(as_sent(answer)) < 1_000_000
        assert len(answer.result.content) < 20
        assert kept_bytes(tmp_path) <= 2 * 2**20
    assert kept_bytes(tmp_path) == 0


def kept_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "state" / "kept").rglob("*") if path.is_file())
