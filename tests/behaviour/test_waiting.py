"""A program that waits for a person for long: what the host gets, and how the program goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codemode_server.app import App
from codemode_server.domain.approvals import ApprovalAnswer

from .product import Host, configuration, office, opened

pytestmark = pytest.mark.slow

CODE = """\
from servers.github import create_issue, list_issues
seen = list_issues(repo='r')
made = create_issue(owner='o', repo='r', title='Bug')
made['number']
"""
ASK = {"rules": [{"ask": "github/create_issue"}]}


@asynccontextmanager
async def product(folder: Path, **sections: Any) -> AsyncIterator[tuple[App, Host]]:
    sections.setdefault("approvals", {"answer_seconds": 1.5, "browser": "never"})
    async with opened(configuration(folder, office(folder, "github"), **sections)) as both:
        yield both


async def answer(app: App, host: Host, *, is_approved: bool = True) -> None:
    async def is_asked() -> bool:
        return bool(await app.stores.approvals.unanswered(app.principal))

    await host.until(is_asked)
    (approval,) = await app.stores.approvals.unanswered(app.principal)
    await app.stores.approvals.answer(approval.approval_id, ApprovalAnswer(is_approved, channel="command"))


class TestAHostWhoseCallTakesLong:
    async def test_is_told_that_the_program_waits_and_gets_its_result_later(self, tmp_path: Path) -> None:
        async with product(tmp_path, permissions=ASK) as (app, host):
            waiting = await host.run(CODE)
            assert waiting.content["status"] == "waiting"
            assert waiting.content["awaited"] == ["github.create_issue"]
            assert not waiting.result.is_error
            name = waiting.content["execution_id"]
            assert f"resume={name!r}" in waiting.text
            (question,) = await app.stores.approvals.unanswered(app.principal)
            called = 'call 2, github.create_issue(owner="o", repo="r", title="Bug")'
            assert f"- {called}: codemode-server approvals approve {question.approval_id}" in waiting.text
            assert "1 call before it succeeded." in waiting.text
            await answer(app, host)
            resumed = await host.call("execute_code", resume=name)
            assert resumed.value == 1
            assert resumed.content["execution_id"] == name
            assert len(host.reached("create_issue")) == 1
            assert len(host.reached("list_issues")) == 1, "the program ran once"


class TestAProgramThatGaveUpItsSandbox:
    async def test_runs_again_without_making_a_call_twice(self, tmp_path: Path) -> None:
        approvals = {"answer_seconds": 1.5, "suspended_seconds": 1, "browser": "never"}
        async with product(tmp_path, permissions=ASK, approvals=approvals) as (app, host):
            waiting = await host.run(CODE)
            assert waiting.content["status"] == "waiting", waiting.text
            name = waiting.content["execution_id"]

            async def is_given_up() -> bool:
                record = await app.stores.journal.execution(app.principal, name)
                return record is not None and record.ended_at is not None

            await host.until(is_given_up)
            await answer(app, host)
            assert (await host.call("execute_code", resume=name)).value == 1
            assert [line["tool"] for line in host.reached()] == ["list_issues", "create_issue"]
