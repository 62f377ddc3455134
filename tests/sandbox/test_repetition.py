"""A program that runs again with its seed and its clock readings gets what it got; any other program does not."""

from __future__ import annotations

import hashlib
import textwrap
import time
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.repetition import MAX_READINGS, ClockPiece, ClockRecord, Repeat, joined
from codemode_server.sandbox.contract import Ending, Limits, Outcome, Program, Reply
from tests.sandbox.lab import SLOWNESS, Lab, Tools
from tests.sandbox.native import run_natively

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEED, OTHER_SEED = bytes(32), bytes([1] * 32)
NOW = 1_000_000_000_123_456_789
"""2001-09-09T01:46:40 UTC."""
SECOND = 10**9
DRAWS = [
    "os.urandom(8).hex()",
    "random.random()",
    "random.gauss(0, 1)",
    "random.sample(range(10**9), 3)",
    "random.Random().random()",
    "random.SystemRandom().random()",
    "(random.seed(), random.random())[1]",
    "(random.seed(None), random.randbytes(4).hex())[1]",
    "secrets.token_hex(8)",
    "secrets.token_urlsafe()",
    "secrets.randbelow(2**64)",
    "secrets.choice(range(2**30))",
    "uuid.uuid4().hex",
    "uuid.getnode()",
    "uuid.uuid1().fields[3:]",
    "tempfile.mktemp()",
]
"""What is random."""
READINGS: dict[str, Any] = {
    "time.time()": NOW / 1e9,
    "time.time_ns()": NOW,
    "time.localtime().tm_sec": 40,
    "time.gmtime().tm_year": 2001,
    "time.ctime()": "Sun Sep  9 01:46:40 2001",
    "time.asctime()": "Sun Sep  9 01:46:40 2001",
    "time.strftime('%Y-%m-%d %H:%M:%S')": "2001-09-09 01:46:40",
    "datetime.datetime.now().isoformat()": "2001-09-09T01:46:40.123456",
    "datetime.datetime.now(datetime.timezone.utc).isoformat()": "2001-09-09T01:46:40.123456+00:00",
    "datetime.datetime.now(tz=ZoneInfo('Europe/Berlin')).isoformat()": "2001-09-09T03:46:40.123456+02:00",
    "datetime.datetime.utcnow().isoformat()": "2001-09-09T01:46:40.123456",
    "datetime.datetime.today().isoformat()": "2001-09-09T01:46:40.123456",
    "datetime.date.today().isoformat()": "2001-09-09",
    "Subclass.now().isoformat(), type(Subclass.now()).__name__": ["2001-09-09T01:46:40.123456", "Subclass"],
    "type(datetime.datetime.now()) is datetime.datetime": True,
    "uuid.uuid1().time": NOW // 100 + 0x01B21DD213814000,
    "email.utils.formatdate()": "Sun, 09 Sep 2001 01:46:40 -0000",
    "time.monotonic()": 7.5,
    "time.monotonic_ns()": 7_500_000_000,
    "time.perf_counter()": 7.5,
    "time.perf_counter_ns()": 7_500_000_000,
    "timeit.default_timer()": 7.5,
}
"""What shows the time, and its value at `NOW` and 7.5 seconds on the monotonic clock."""
HEAD = """
import asyncio, concurrent.futures, datetime, email.utils, os, random, secrets, tempfile, threading, time, timeit
import uuid
from zoneinfo import ZoneInfo
from servers.github import echo
class Subclass(datetime.datetime):
    pass
"""
EVERYTHING = f"""
found = [{", ".join(DRAWS)}, {", ".join(READINGS)}]
for number in range(2):
    time.sleep(0.01)
    found += [echo(at=time.time(), key=str(uuid.uuid4())), time.perf_counter(), list({{"a", "bc", "def", "ghij"}})]
    found += [os.listdir("/tmp"), sorted(random.sample("abcdefgh", 3)), datetime.datetime.now().isoformat()]
found
"""


@dataclass(frozen=True)
class Run:
    """A program that has run, and what was recorded of its clocks."""

    outcome: Outcome
    clock: ClockRecord

    @property
    def value(self) -> Any:
        assert self.outcome.ending is Ending.RETURNED, self.outcome
        return self.outcome.value


async def run(lab: Lab, code: str, repeat: Repeat | None = None, tools: Tools | None = None) -> Run:
    program = made(lab, code, repeat or Repeat.new())
    with anyio.fail_after(30 + 30 * SLOWNESS):
        outcome = await lab.backend.run(program, tools or Tools())
    return Run(outcome, recorded(program))


def recorded(program: Program) -> ClockRecord:
    piece = program.clock.take()
    return ClockRecord() if piece is None else joined([piece])


def made(lab: Lab, code: str, repeat: Repeat) -> Program:
    limits = Limits(wall_seconds=20.0 * SLOWNESS)
    return Program(ExecutionId("x0"), HEAD + textwrap.dedent(code), limits, lab.workspace, "lab", repeat=repeat)


@pytest.mark.portable
async def test_a_program_that_runs_again_gets_what_it_got(lab: Lab) -> None:
    first = await run(lab, EVERYTHING, Repeat(SEED))
    assert first.clock.is_complete
    again = await run(lab, EVERYTHING, Repeat(SEED, first.clock))
    assert again.value == first.value
    assert again.clock == first.clock, "so that a third run can repeat the second"
    other = await run(lab, EVERYTHING, Repeat(OTHER_SEED, first.clock))
    assert other.value != first.value, "the control"


@pytest.mark.portable
async def test_what_is_random_comes_from_the_seed(lab: Lab) -> None:
    code, clock = f"[{', '.join(f'[{draw}, {draw}]' for draw in DRAWS)}]", ClockRecord((NOW,) * 9)
    first, again = [(await run(lab, code, Repeat(SEED, clock))).value for _ in range(2)]
    assert first == again
    other = (await run(lab, code, Repeat(OTHER_SEED, clock))).value
    assert not [draw for draw, one, two in zip(DRAWS, first, other, strict=True) if one == two]
    assert [draw for draw, (one, two) in zip(DRAWS, first, strict=True) if one == two] == ["uuid.getnode()"]


@pytest.mark.portable
async def test_what_shows_the_time_shows_the_recorded_one(lab: Lab) -> None:
    repeat = Repeat(SEED, ClockRecord((NOW,) * 40, (7_500_000_000,) * 20))
    found = (await run(lab, f"[{', '.join(f'[{it}]' for it in READINGS)}]", repeat)).value
    wanted = [value if isinstance(value, list) else [value] for value in READINGS.values()]
    assert dict(zip(READINGS, found, strict=True)) == dict(zip(READINGS, wanted, strict=True))


@pytest.mark.portable
async def test_what_only_waits_and_calls_leaves_no_readings(lab: Lab) -> None:
    """Those of the guest and of the library would differ from run to run, and move the program's own."""
    code = """
    async def main():
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5):
            await asyncio.gather(*[echo(n=n) for n in range(20)])
        return asyncio.get_running_loop().time()
    asyncio.run(main())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(concurrent.futures.as_completed([pool.submit(echo, n=1)], timeout=5))
        list(pool.map(lambda n: echo(n=n), range(3), timeout=5))
    threading.Event().wait(0.01)
    time.sleep(0.01)
    print("x")
    datetime.datetime.fromtimestamp(0), time.localtime(0), time.strftime("%Y", time.gmtime(0)), time.ctime(0)
    """
    assert (await run(lab, code)).clock == ClockRecord()
    assert (await run(lab, f"{code}\n    time.time()")).clock.wall_ns, "the control"


@pytest.mark.portable
async def test_after_the_record_comes_the_real_time_which_never_goes_back(lab: Lab) -> None:
    code = "[[time.time_ns(), time.monotonic_ns()] for _ in range(4)]"
    past, future = NOW, time.time_ns() + 3600 * SECOND
    for recorded in (past, future):
        repeat = Repeat(SEED, ClockRecord((recorded - 5, recorded), (10**18, 10**18 + 7)))
        wall, monotonic = zip(*(await run(lab, code, repeat)).value, strict=True)
        assert wall[:2] == (recorded - 5, recorded)
        assert monotonic[:2] == (10**18, 10**18 + 7)
        assert list(wall) == sorted(wall)
        assert list(monotonic) == sorted(monotonic)
        assert monotonic[3] < 10**18 + 20 * SLOWNESS * SECOND, "it goes on from there"
        assert wall[3] < max(time.time_ns(), future) + 20 * SLOWNESS * SECOND
        assert wall[3] > recorded


@pytest.mark.portable
async def test_readings_reach_the_host_before_the_call_that_follows_them(lab: Lab) -> None:
    pieces: list[ClockPiece | None] = []

    class Recording(Tools):
        async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False) -> Reply:
            pieces.append(program.clock.take())
            return await super().call(server, tool, arguments, raw=raw)

    code = """
    first = [time.time_ns() for _ in range(2_500)]
    echo(a=1)
    echo(a=2)
    last = time.time_ns()
    echo(a=3)
    [*first, last]
    """
    program = made(lab, code, Repeat(SEED))
    outcome = await lab.backend.run(program, Recording())
    assert [it and len(it.wall_ns) for it in pieces] == [2_500, None, 1]
    assert joined(it for it in pieces if it) == ClockRecord(tuple(outcome.value))


@pytest.mark.portable
async def test_a_record_is_bounded_and_says_so(lab: Lab) -> None:
    code = "found = [time.time_ns() for _ in range(30_000)]\n[found[0], found[-1], echo(a=1)]"
    first = await run(lab, code)
    assert 0 < len(first.clock.wall_ns) <= MAX_READINGS
    assert not first.clock.is_complete
    again = await run(lab, code, Repeat(SEED, first.clock))
    assert again.value[0] == first.value[0]
    assert again.value[1] > first.value[1], "the real time follows the record"
    fewer = await run(lab, code.replace("30_000", "3_000"))
    assert (len(fewer.clock.wall_ns), fewer.clock.is_complete) == (3_000, True), "the control"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param("wall='x', monotonic='', is_complete=True", id="no number", marks=pytest.mark.portable),
        pytest.param("wall='1', monotonic='-1', is_complete=True", id="before 1970", marks=pytest.mark.portable),
        pytest.param("wall=[1], monotonic='', is_complete=True", id="a list", marks=pytest.mark.portable),
        pytest.param("wall='1'", id="too few fields", marks=pytest.mark.portable),
        pytest.param(
            "wall=','.join('1' * 9_999), monotonic='', is_complete=True", id="too many", marks=pytest.mark.portable
        ),
    ],
)
async def test_a_program_that_sends_no_readings_as_readings_is_ended(lab: Lab, fields: str) -> None:
    found = await run(lab, f"{lab.raw}\nsend(op='clock', {fields})\nasyncio.run(asyncio.sleep(60))")
    assert found.outcome.ending is Ending.DIED
    honest = f"{lab.raw}\nsend(op='clock', wall='5,6', monotonic='7', is_complete=True)\n1"
    assert (await run(lab, honest)).clock == ClockRecord((5, 11), (7,)), "the control: it can write its own record"


FIND = """
import gc, sys
level = [*gc.get_objects(), *(vars(module) for name, module in sys.modules.items() if "codemode" in name)]
seen, found = set(), set()
for _ in range(4):
    level = [it for it in level if id(it) not in seen]
    seen.update(map(id, level))
    level = gc.get_referents(*level)
    texts = {it if type(it) is str else it.hex() for it in level if type(it) in (str, bytes)}
    found |= texts & {"".join(reversed(it)) for it in BACKWARDS}
sorted(found)
"""


@pytest.mark.portable
async def test_a_program_can_not_read_its_seed(lab: Lab) -> None:
    """What its randomness comes from is derived from the seed; that it finds, which is the control."""
    seed = hashlib.sha256(b"a seed").digest()
    derived = hashlib.blake2b(seed, digest_size=32, person=b"codemode guest").hexdigest()
    code = f"BACKWARDS = {[seed.hex()[::-1], derived[::-1]]!r}\n{FIND}"
    assert (await run(lab, code, Repeat(seed))).value == [derived]


async def test_a_set_of_texts_has_the_same_order_in_every_sandbox(lab: Lab) -> None:
    """Of a microVM's session, whose machine is ended here, and the next one's."""
    code = "[*{str(number) for number in range(50)}]"
    one = await lab.value(code, session="one")
    await lab.end("one")
    assert await lab.value(code, session="two") == one
    await lab.end("two")


class TestTheRunnerOfMicrovms:
    """In a process of this machine."""

    @staticmethod
    async def run(code: str, repeat: Repeat | None = None) -> Run:
        program = Program(ExecutionId("x0"), HEAD + textwrap.dedent(code), Limits(), repeat=repeat or Repeat.new())
        with anyio.fail_after(60):
            outcome = await run_natively(program, Tools())
        return Run(outcome, recorded(program))

    async def test_a_program_that_runs_again_gets_what_it_got(self) -> None:
        code = EVERYTHING.replace('os.listdir("/tmp")', "0").replace("tempfile.mktemp()", "0")
        first = await self.run(code, Repeat(SEED))
        assert (await self.run(code, Repeat(SEED, first.clock))).value == first.value

    async def test_what_shows_the_time_shows_the_recorded_one(self) -> None:
        repeat = Repeat(SEED, ClockRecord((NOW,) * 40, (7_500_000_000,) * 20))
        code = f"os.environ['TZ'] = 'UTC'\ntime.tzset()\n[{', '.join(f'[{it}]' for it in READINGS)}]"
        found = (await self.run(code, repeat)).value
        wanted = [value if isinstance(value, list) else [value] for value in READINGS.values()]
        assert dict(zip(READINGS, found, strict=True)) == dict(zip(READINGS, wanted, strict=True))

    async def test_a_forked_process_draws_other_bytes_than_the_program_and_the_same_when_it_runs_again(self) -> None:
        code = """
        def child():
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.write(writing, repr([os.urandom(8), random.random(), uuid.getnode()]).encode())
                os._exit(0)
            os.wait()
            return os.read(reading, 9_999).decode()
        [child(), child(), repr([os.urandom(8), random.random(), uuid.getnode()])]
        """
        first = (await self.run(code, Repeat(SEED))).value
        assert len(set(first)) == 3
        assert (await self.run(code, Repeat(SEED))).value == first
        assert not {*first} & {*(await self.run(code, Repeat(OTHER_SEED))).value}
