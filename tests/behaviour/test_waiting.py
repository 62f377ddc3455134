"""A program that waits for a person for long: what the host gets, and how the program goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .product import Product, configuration, office, opened

pytestmark = pytest.mark.slow

CODE = """\
from servers.github import create_issue, list_issues
seen = list_issues(repo='r')
made = create_issue(owner='o', repo='r', title='Bug')
made['number']
"""
ASK = {"rules": [{"ask": "github/create_issue"}]}


@asynccontextmanager
async def product(folder: Path, **approvals: Any) -> AsyncIterator[Product]:
    approvals |= {"answer_seconds": 1.5, "browser": "never"}
    path = configuration(folder, office(folder, "github"), permissions=ASK, approvals=approvals)
    async with opened(path) as (app, host):
        yield Product(app, host)


async def test_a_host_whose_call_takes_long_is_told_that_the_program_waits_and_gets_its_result_later(
    tmp_path: Path,
) -> None:
    async with product(tmp_path) as it:
        waiting = await it.host.run(CODE)
        assert waiting.content["status"] == "waiting"
        assert waiting.content["awaited"] == ["github.create_issue"]
        assert not waiting.result.is_error
        name = waiting.content["execution_id"]
        assert f"resume={name!r}" in waiting.text
        question = await it.question()
        called = 'call 2, github.create_issue(owner="o", repo="r", title="Bug")'
        assert f"- {called}: codemode-server approvals approve {question.approval_id}" in waiting.text
        assert "1 call was made before it." in waiting.text
        await it.answer(question)
        resumed = await it.host.call("execute_code", resume=name)
        assert resumed.value == 1
        assert resumed.content["execution_id"] == name
        assert [line["tool"] for line in it.host.reached()] == ["list_issues", "create_issue"], "the program ran once"


async def test_a_program_that_gave_up_its_sandbox_runs_again_without_making_a_call_twice(tmp_path: Path) -> None:
    async with product(tmp_path, suspended_seconds=1) as it:
        waiting = await it.host.run(CODE)
        assert waiting.content["status"] == "waiting", waiting.text
        name = waiting.content["execution_id"]

        async def is_given_up() -> bool:
            record = await it.app.stores.journal.execution(it.app.principal, name)
            return record is not None and record.ended_at is not None

        async def numbers() -> list[int]:
            calls, record = (
                await it.app.stores.journal.calls(it.app.principal, name),
                await it.app.stores.journal.execution(it.app.principal, name),
            )
            assert record is not None
            assert record.calls == len(calls), "lists count the calls that are shown"
            return [one.call.seq for one in calls]

        await it.host.until(is_given_up)
        assert await numbers() == [1, 2]
        assert (await it.host.call("execute_code", resume=name)).content["status"] == "waiting"
        await it.host.until(is_given_up)
        assert await numbers() == [1, 2], "one that goes on waiting is recorded once"
        await it.answer(await it.question())
        assert (await it.host.call("execute_code", resume=name)).value == 1
        assert [line["tool"] for line in it.host.reached()] == ["list_issues", "create_issue"]
        assert await numbers() == [1, 2, 4]
