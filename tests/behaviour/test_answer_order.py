"""A resumed program gets the recorded answers in the order in which they first came, so its tasks and threads take the
way that they took: what they write is recognised, and nothing is written twice.

In each first run the call that was made first is answered last; answers from the journal could all come at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio

from codemode_server.gateway.answer_order import AnswerOrder

from .product import for_all
from .test_resume import ONCE_BROKEN, Product, product

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
SHARED = """
arrived = []
async def held():
    await write_and_hold(text='held', until='go')
    arrived.append(f'held {random.random()}')
async def short():
    await write(text='short')
    arrived.append(f'short {random.random()}')
    await write(text='go')
"""
PROGRAMS = {
    "gather": """
await asyncio.gather(held(), short())
write(text=arrived[0])
""",
    "as_completed of threads": """
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor() as pool:
    calls = {pool.submit(write_and_hold, text='held', until='go'): 'held', pool.submit(write, text='short'): 'short'}
    for place, call in enumerate(as_completed(calls)):
        write(text=f'{calls[call]} {place}')
        if calls[call] == 'short':
            write(text='go')
""",
    "a timeout": """
call = asyncio.ensure_future(write_and_hold(text='held', until='go'))
try:
    await asyncio.wait_for(asyncio.shield(call), 1.5)
    write(text='in time')
except TimeoutError:
    write(text='late')
write(text='go')
await call
""",
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    async with for_all(product(tmp_path_factory.mktemp("order"), approvals={"unknown": "fail"})) as opened:
        yield opened


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_takes_the_way_that_it_took(shared: Product, name: str) -> None:
    broken = await shared.broken(f"{SHARED}{PROGRAMS[name]}{ONCE_BROKEN}'done'")
    before = shared.diary()
    assert "go" in before, "control: the held call was answered"
    with anyio.fail_after(30):
        answer = await shared.resume(broken)
    assert answer.value == "done"
    assert shared.diary() == before
    assert "did not" not in answer.text


@pytest.mark.parametrize("name", PROGRAMS)
async def test_control_it_takes_another_way_if_answers_come_in_any_order(
    shared: Product, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anyway(self: AnswerOrder, key: object) -> None:
        pass

    broken = await shared.broken(f"{SHARED}{PROGRAMS[name]}{ONCE_BROKEN}'done'")
    monkeypatch.setattr(AnswerOrder, "wait", anyway)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shared.resume, broken)
        asked = await shared.answer(is_approved=False)
    assert "departs from its earlier run" in asked.question.reason
