"""What is hard in running a program again: its tools have changed, it swallows errors, the journal does not hold all,
it is resumed once more. In each case nothing is written twice without a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from .product import Answer
from .test_resume import ONCE_BROKEN, Product, product

pytestmark = pytest.mark.slow


async def test_a_program_that_swallows_refused_departures_still_writes_nothing(tmp_path: Path) -> None:
    code = f"""
from codemode import ToolError
text = 'a' if not os.path.exists('/workspace/mended') else 'x'
refused = 0
for number in range(3):
    try:
        write(text=f'{{text}}{{number}}')
    except ToolError:
        refused += 1
{ONCE_BROKEN}refused"""
    async with product(tmp_path) as one:
        name = await one.broken(code)
        answers: list[Answer] = []

        async def resume() -> None:
            answers.append(await one.resume(name))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            for _ in range(3):
                await one.answer(is_approved=False)
        assert answers[0].value == 3
        assert one.diary() == ["a0", "a1", "a2"]


async def test_a_program_that_its_host_cancelled_goes_on_where_it_was(tmp_path: Path) -> None:
    async with product(tmp_path) as one:
        code = "from servers.diary import *\nimport os, time\nwrite(text='a')\n"
        code += "while not os.path.exists('/workspace/mended'): time.sleep(0.05)\nwrite(text='b')"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.host.run, code)
            await one.host.until(lambda: len(one.app.executions._live) == 1)
            (name,) = one.app.executions._live

            async def is_answered() -> bool:
                return any(it.outcome is not None for it in await one.records(name))

            await one.host.until(is_answered)
            await one.app.executions.cancel(name)
        assert (await one.resume(name)).value == 2
        assert one.diary() == ["a", "b"]


async def test_a_program_that_fails_again_and_again_makes_each_write_once(tmp_path: Path) -> None:
    code = """
counter = '/workspace/runs'
runs = int(open(counter).read()) + 1 if os.path.exists(counter) else 1
open(counter, 'w').write(str(runs))
for number in range(runs):
    write(text=str(number))
if runs < 4:
    raise RuntimeError(runs)
runs"""
    async with product(tmp_path) as one:
        name = await one.broken(code)
        for _ in range(2):
            assert (await one.resume(name)).error["type"] == "RuntimeError"
        assert (await one.resume(name)).value == 4
        assert one.diary() == ["0", "1", "2", "3"]


async def resumed_with_full_journal(one: Product, code: str) -> tuple[Answer, list[str]]:
    """A program of whose calls the journal holds no values is resumed, and its questions are refused; its answer, and
    the reasons of the questions."""
    journal: Any = one.app.stores.journal
    most, journal.execution_bytes = journal.execution_bytes, 1
    name = await one.broken(code)
    journal.execution_bytes = most
    reasons: list[str] = []

    async def refuse() -> None:
        while True:
            reasons.append((await one.answer(is_approved=False)).question.reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refuse)
        answer = await one.resume(name)
        tasks.cancel_scope.cancel()
    return answer, reasons


async def test_a_write_whose_arguments_the_journal_could_not_hold_is_not_made_again_without_a_person(
    tmp_path: Path,
) -> None:
    async with product(tmp_path) as one:
        answer, reasons = await resumed_with_full_journal(one, f"write(text='a')\n{ONCE_BROKEN}'done'")
        assert ["departs from its earlier run" in it for it in reasons] == [True]
        assert "diary.write" in answer.error["message"]
        assert one.diary() == ["a"]


async def test_a_program_is_resumed_in_the_session_of_who_resumes_it(tmp_path: Path) -> None:
    """The files that it wrote in the workspace are there: what a program does without calls is done again."""
    code = f"""
with open('/workspace/log', 'a') as file:
    file.write('x')
write(text='a')
{ONCE_BROKEN}open('/workspace/log').read()"""
    async with product(tmp_path) as one:
        name = await one.broken(code)
    async with product(tmp_path) as one:
        assert (await one.resume(name)).value == "xx"
        assert one.diary() == ["a"]
