"""A program that runs again with its seed gets the same random values; any other program does not."""

from __future__ import annotations

import hashlib
import textwrap
import time
from typing import Any

import anyio
import pytest

from codemode_server.domain.executions import Repeat
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Ending, Limits, Outcome, Program
from tests.sandbox.lab import SLOWNESS, Lab, Tools
from tests.sandbox.native import run_natively
from tests.tables import tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)

SEED, OTHER_SEED = bytes(32), bytes([1] * 32)
DRAWS = TABLES["draws"]
"""What is random."""
HEAD = """
import asyncio, concurrent.futures, datetime, email.utils, os, random, secrets, tempfile, threading, time, timeit
import uuid
from zoneinfo import ZoneInfo
from servers.github import echo
class Subclass(datetime.datetime):
    pass
"""
EVERYTHING = f"""
found = [{", ".join(DRAWS)}]
for number in range(2):
    time.sleep(0.01)
    found += [echo(key=str(uuid.uuid4())), list({{"a", "bc", "def", "ghij"}}), os.listdir("/tmp")]
    found += [sorted(random.sample("abcdefgh", 3))]
found
"""


async def run(lab: Lab, code: str, repeat: Repeat) -> Any:
    with anyio.fail_after(60 + 30 * SLOWNESS):
        outcome = await lab.backend.run(made(lab, code, repeat), Tools())
    return value_of(outcome)


def value_of(outcome: Outcome) -> Any:
    assert outcome.ending is Ending.RETURNED, outcome
    return outcome.value


def made(lab: Lab, code: str, repeat: Repeat) -> Program:
    limits = Limits(wall_seconds=20.0 * SLOWNESS)
    return Program(ExecutionId("x0"), HEAD + textwrap.dedent(code), limits, lab.workspace, "lab", repeat=repeat)


@pytest.mark.portable
async def test_a_program_that_runs_again_gets_what_it_got(lab: Lab) -> None:
    first = await run(lab, EVERYTHING, Repeat(SEED))
    assert await run(lab, EVERYTHING, Repeat(SEED)) == first
    assert await run(lab, EVERYTHING, Repeat(OTHER_SEED)) != first, "the control"


@pytest.mark.portable
async def test_a_program_that_runs_again_reads_the_real_time(lab: Lab) -> None:
    code = "[time.time(), datetime.datetime.now(datetime.UTC).timestamp(), time.monotonic()]"
    first, again = [await run(lab, code, Repeat(SEED)) for _ in range(2)]
    assert all(earlier < later for earlier, later in zip(first[:2], again[:2], strict=True))
    assert abs(again[0] - time.time()) < 20 * SLOWNESS


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
    assert await run(lab, code, Repeat(seed)) == [derived]


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
    async def run(code: str, repeat: Repeat) -> Any:
        program = Program(ExecutionId("x0"), HEAD + textwrap.dedent(code), Limits(), repeat=repeat)
        with anyio.fail_after(60):
            outcome = await run_natively(program, Tools())
        return value_of(outcome)

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
        first = await self.run(code, Repeat(SEED))
        assert len(set(first)) == 3
        assert await self.run(code, Repeat(SEED)) == first
        assert not {*first} & {*await self.run(code, Repeat(OTHER_SEED))}
