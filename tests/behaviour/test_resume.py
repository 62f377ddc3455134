"""A program that ended half-way is resumed: what it did is answered from the journal, and nothing is done twice.

The product is in memory; its upstream writes each call that it receives to a file, which the tests look at.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer
from codemode_server.features.guardrails import Change, GuardedCall, Guardrail, Pass
from codemode_server.features.resume.answer_order import AnswerOrder

from .product import UPSTREAMS, Answer, Product, configuration, for_all, opened

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
IMPORTS = "import asyncio, os, random, time\nfrom codemode import ToolError\nfrom servers.diary import *\n"
ONCE_BROKEN = "if not os.path.exists('/workspace/mended'):\n    raise RuntimeError('broken')\n"
MEND = "open('/workspace/mended', 'w').close()"


class Resumable(Product):
    """A product with the diary."""

    @property
    def path(self) -> Path:
        return self.folder / "diary"

    def diary(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    async def broken(self, code: str) -> str:
        """The id of a program that failed."""
        self.path.unlink(missing_ok=True)
        await self.host.run("import os\nif os.path.exists('/workspace/mended'): os.remove('/workspace/mended')")
        answer = await self.host.run(IMPORTS + code)
        assert answer.content["status"] != "succeeded", answer.text
        name: str = answer.content["execution_id"]
        return name

    async def resume(self, name: str) -> Answer:
        return (await self.resume_answering(name))[0]

    async def again(self, code: str) -> Answer:
        """A program that failed and was resumed."""
        return await self.resume(await self.broken(code))

    async def resume_answering(self, name: str, *answers: bool | ApprovalAnswer) -> tuple[Answer, list[Approval]]:
        await self.host.run(MEND)
        return await self.answering(*answers, resume=name)


@asynccontextmanager
async def product(folder: Path, **sections: Any) -> AsyncIterator[Resumable]:
    diary = {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(folder / "diary")]}
    path = configuration(folder, {"diary": diary | sections.pop("server", {})}, **sections)
    async with opened(path) as (app, host):
        yield Resumable(app, host)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Resumable]:
    async with for_all(
        product(tmp_path_factory.mktemp("resume"), server={"timeout": 1, "concurrent_writes": True})
    ) as opened:
        yield opened


async def test_calls_that_were_answered_are_answered_again_and_not_sent(shared: Resumable) -> None:
    """Errors as well."""
    name = await shared.broken(f"""
numbers = [write(text=f'a{{n}}') for n in range(3)]
try:
    write_and_fail(text='a3')
except ToolError as error:
    numbers.append(error.message)
{ONCE_BROKEN}[*numbers, write(text='b')]""")
    assert shared.diary() == ["a0", "a1", "a2", "a3"], "control"
    answer = await shared.resume(name)
    *numbers, said, last = answer.value
    assert (numbers, last) == ([1, 2, 3], 5)
    assert "the diary is full" in said
    assert answer.content["execution_id"] == name
    assert shared.diary() == ["a0", "a1", "a2", "a3", "b"]


async def test_results_of_calls_are_still_read_once_the_resumed_program_has_succeeded(shared: Resumable) -> None:
    """The model was told their names when it failed."""
    name = await shared.broken(f"write(text='a')\nwrite(text='b')\n{ONCE_BROKEN}write(text='c')\n'done'")
    assert (await shared.resume(name)).value == "done", "control"
    parts = name, f"{name}/calls/2"
    read = await shared.host.run(f"from codemode import results\n[results[part] for part in {parts}]")
    assert read.value == ["done", 2]
    missing = await shared.host.run(f"from codemode import results\nresults['{name}/calls/3']")
    assert f"call 3 of {name} has no stored result; there is {name}/calls/N for N = 1, 2" in missing.text


async def test_concurrent_calls_in_another_order_are_no_departure(shared: Resumable) -> None:
    """Each task has come to another place, so those that made fewer calls go on before the others have made theirs."""
    code = f"""
mended = os.path.exists('/workspace/mended')
async def some(task, most):
    for n in range(10 if mended else most):
        await write(text=f'{{task}}.{{n}}')
tasks = [some(*one) for one in [(0, 1), (1, 9), (2, 4)]]
await asyncio.gather(*(tasks if mended else reversed(tasks)))
{ONCE_BROKEN}"""
    await shared.again(code)
    assert sorted(shared.diary()) == sorted(f"{task}.{n}" for task in range(3) for n in range(10))


ORDERS = {
    "gather": "await asyncio.gather(held(), short())\nwrite(text=arrived[0])\n",
    "as_completed of threads": """
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor() as pool:
    calls = {pool.submit(write_and_hold, text='held', until='go'): 'held', pool.submit(write, text='short'): 'short'}
    for place, call in enumerate(as_completed(calls)):
        write(text=f'{calls[call]} {place}')
        if calls[call] == 'short':
            write(text='go')
""",
}
HELD = """
arrived = []
async def held():
    await write_and_hold(text='held', until='go')
    arrived.append(f'held {random.random()}')
async def short():
    await write(text='short')
    arrived.append(f'short {random.random()}')
    await write(text='go')
"""


@pytest.mark.parametrize("order", ORDERS)
async def test_answers_come_in_the_order_in_which_they_first_came(
    shared: Resumable, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its tasks and threads take the way that they took. The call that was made first was answered last."""
    code = f"{HELD}{ORDERS[order]}{ONCE_BROKEN}'done'"
    broken = await shared.broken(code)
    before = shared.diary()
    assert "go" in before, "control: the held call was answered"
    assert (await shared.resume(broken)).value == "done"
    assert shared.diary() == before

    async def in_any_order(self: AnswerOrder, key: object) -> None:
        pass

    broken = await shared.broken(code)
    monkeypatch.setattr(AnswerOrder, "wait", in_any_order)
    _, (asked,) = await shared.resume_answering(broken, False)
    assert "departs from its earlier run" in asked.question.reason, "control: in any order it takes another way"


async def test_a_write_with_other_arguments_needs_a_person(shared: Resumable) -> None:
    """The program would write a second time what it has written already; that it swallows refusals changes nothing."""
    code = f"""
text, refused = 'x' if os.path.exists('/workspace/mended') else 'a', 0
for number in range(2):
    try:
        write(text=f'{{text}}{{number}}')
    except ToolError:
        refused += 1
{ONCE_BROKEN}refused"""
    name = await shared.broken(code)
    answer, (asked, _) = await shared.resume_answering(name, False, False)
    assert "departs from its earlier run" in asked.question.reason
    assert "call 1 (diary/write)" in asked.question.reason
    assert asked.question.changes == ("compared with call 1 of the earlier run:", '- text: "a0"', '+ text: "x0"')
    assert answer.value == 2
    assert shared.diary() == ["a0", "a1"]


class Lower(Guardrail):
    def before_call(self, call: GuardedCall) -> Any:
        return Change({**call.arguments, "text": "a"}, "small") if call.tool == "write_and_wait" else Pass()


UNANSWERED = f"""
try:
    said = write_and_wait(text='A')
except ToolError as error:
    said = error.message
{ONCE_BROKEN}str(said)"""
SEVEN, NOTHING, TEXT = (
    ApprovalAnswer(True, AnswerScope.ARRIVED, channel="command", result=it) for it in (7, None, "r")
)
AGAIN, GIVE_UP = (ApprovalAnswer(it, channel="command") for it in (True, False))


@pytest.mark.parametrize(
    ("given", "value", "entries", "said"),
    [
        (SEVEN, "7", 1, "not sent again; taken as arrived, with the result 7: the user says that it arrived"),
        ((NOTHING, TEXT, SEVEN), "7", 1, "not sent again; taken as arrived, with the result 7"),
        (
            (NOTHING,) * 5,
            "entered no result that fits: an integer",
            1,
            "not sent again; call 1 of the earlier run got no",
        ),
        (
            AGAIN,
            "nor reported progress for 1 s",
            2,
            "sent a second time, since call 1 of the earlier run got no answer",
        ),
        (GIVE_UP, "the user gave it up", 1, "not sent again; call 1 of the earlier run got no answer"),
        ("retry", "nor reported progress for 1 s", 2, "sent a second time"),
        ("skip", "None", 1, "not sent again; taken as arrived, with the result null: approvals.unknown: skip; call 1"),
        ("fail", "approvals.unknown: ask", 1, "not sent again; call 1 of the earlier run got no answer"),
    ],
)
async def test_a_person_or_the_setting_decides_about_a_write_without_an_answer_and_the_model_reads_how(
    tmp_path: Path, given: ApprovalAnswer | tuple[ApprovalAnswer, ...] | str, value: str, entries: int, said: str
) -> None:
    more = {"approvals": {"browser": "never", **({"unknown": given} if isinstance(given, str) else {})}}
    async with product(tmp_path, server={"timeout": 1}, guardrails=[{"use": f"{__name__}:Lower"}], **more) as one:
        name = await one.broken(UNANSWERED)
        given = (given,) if isinstance(given, ApprovalAnswer) else given
        answer, asked = await one.resume_answering(name, *([] if isinstance(given, str) else given))
        assert value in answer.value
        notes = [line for line in answer.content.get("notes", ()) if 'diary.write_and_wait(text="a"): ' in line]
        assert [said in line for line in notes] == [True]
        assert one.diary() == ["a"] * entries
        assert all("diary.count()" in it.question.reads for it in asked)
        assert [it.question.result for it in asked[:2]] == [
            "an integer",
            "an integer (not accepted: 'result' must be an integer, not null)",
        ][: len(asked)]


async def test_a_write_without_an_answer_is_asked_about_again_until_the_program_does_not_fail(
    shared: Resumable,
) -> None:
    """Whatever the person says once: the program can still be resumed to its end."""
    name = await shared.broken("write_and_wait(text='a')\nif not os.path.exists('/workspace/end'):\n    1 / 0\n'end'")
    for given in (GIVE_UP, GIVE_UP, SEVEN, SEVEN):
        _, (asked,) = await shared.resume_answering(name, given)
        assert "not known whether it arrived" in asked.question.reason
    await shared.host.run("open('/workspace/end', 'w').close()")
    answer, (asked,) = await shared.resume_answering(name, SEVEN)
    assert answer.value == "end"
    assert "was taken as arrived, and the program failed" in asked.question.reason
    await shared.host.run("import os\nos.remove('/workspace/end')")
    assert shared.diary() == ["a"]


async def test_a_tool_that_is_denied_now_is_not_answered_from_the_journal(tmp_path: Path) -> None:
    async with product(tmp_path) as one:
        name = await one.broken(f"write(text='a')\n{ONCE_BROKEN}")
    async with product(tmp_path, permissions={"rules": [{"deny": "diary/write"}]}) as one:
        answer = await one.resume(name)
        assert answer.content["status"] == "failed"
        assert "not permitted" in answer.text


async def test_one_that_succeeded_is_not_run_again(shared: Resumable) -> None:
    shared.path.unlink(missing_ok=True)
    name = (await shared.host.run(IMPORTS + "write(text='a')")).content["execution_id"]
    answer = await shared.host.call("execute_code", resume=name)
    assert f"results[{name!r}]" in answer.text
    assert shared.diary() == ["a"]


@pytest.mark.parametrize("limit", ["3/hour", "3/execution"])
async def test_answers_of_the_journal_are_within_every_limit_and_new_calls_are_not(tmp_path: Path, limit: str) -> None:
    """Three were sent in an hour; the fourth is refused, and the first three are still answered."""
    rules = [{"allow": "diary/write", "limit": limit}]
    async with product(tmp_path, permissions={"rules": rules, "default": "allow"}) as one:
        code = f"""
numbers = [write(text=str(n)) for n in range(3)]
{ONCE_BROKEN}try:
    write(text='one too many')
except ToolError as error:
    numbers.append(error.kind)
numbers"""
        assert (await one.again(code)).value == [1, 2, 3, "refused"]
        assert one.diary() == [str(n) for n in range(3)]


async def test_of_two_that_resume_the_same_one_runs(tmp_path: Path) -> None:
    async with product(tmp_path) as one, product(tmp_path) as other:
        name = await one.broken(f"write(text='a')\n{ONCE_BROKEN}time.sleep(1)\nwrite(text='b')")
        await one.host.run(MEND)
        answers: list[Answer] = []

        async def resume(by: Resumable) -> None:
            answers.append(await by.host.call("execute_code", resume=name))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume, one)
            tasks.start_soon(resume, other)
        assert one.diary() == ["a", "b"]
        assert sorted(answer.result.is_error for answer in answers) == [False, True]
        (refused,) = [answer.text for answer in answers if answer.result.is_error]
        assert "is running" in refused or "has succeeded" in refused
