"""Several hosts over HTTP on one product: a question about a call, ours or the upstream's, reaches the host that made
it, and its answer holds for that call alone. The product is a process, the clients are real, and so is the command that
answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest

from tests.behaviour.product import Host, configuration, office
from tests.behaviour.test_approvals import ASK, NO, ONCE
from tests.behaviour.test_input_requests import ASK_CITY, ask, asking
from tests.hosts.kit import HttpHost, Mode, Served, http_host, reached, serving

pytestmark = pytest.mark.slow
EACH_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])


@dataclass
class Person:
    """One host's user, who answers once `may_answer` is set."""

    answer: str = ONCE
    asked_for: str = "answer"
    is_asked: anyio.Event = field(default_factory=anyio.Event)
    may_answer: anyio.Event = field(default_factory=anyio.Event)
    seen: list[Any] = field(default_factory=list)

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.seen.append(params)
        self.is_asked.set()
        await self.may_answer.wait()
        return types.ElicitResult(action="accept", content={self.asked_for: self.answer})


def connected(served: Served, folder: Path, mode: Mode, elicit: Any = None) -> AbstractAsyncContextManager[HttpHost]:
    return http_host(served, folder, mode, callbacks={} if elicit is None else {"elicitation_callback": elicit})


def created(folder: Path) -> list[str]:
    """The titles that reached the upstream."""
    return [it["title"] for it in reached(folder) if it["tool"] == "create_issue"]


def config(folder: Path, **approvals: Any) -> Path:
    approvals = {"browser": "never", **approvals}
    return configuration(folder, office(folder, "github"), permissions=ASK, approvals=approvals)


def open_titles(path: Path) -> dict[str, str]:
    """The calls that wait, by what the command prints: title and id of the question."""
    command = [sys.executable, "-m", "codemode_server", "approvals", "list", "--json", "--config", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {it["arguments"]["title"]: it["id"] for it in found}


@EACH_ERA
async def test_each_host_sees_its_own_question_and_no_answer_holds_for_the_other(tmp_path: Path, mode: Mode) -> None:
    ada, bob, path = Person(), Person(NO), config(tmp_path)
    answers: dict[str, Any] = {}
    with serving(path) as served:
        async with (
            connected(served, tmp_path, mode, ada.elicit) as one,
            connected(served, tmp_path, mode, bob.elicit) as other,
        ):
            await one.settled()

            async def run(host: Host, title: str, then: anyio.Event) -> None:
                code = "from servers.github import create_issue\n"
                code += f"create_issue(owner='o', repo='r', title='{title}')['number']"
                answers[title] = await host.run(code)
                then.set()

            has_ended = anyio.Event()
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, one, "of ada", has_ended)
                    tasks.start_soon(run, other, "of bob", anyio.Event())
                    await ada.is_asked.wait()
                    await bob.is_asked.wait()
                    assert created(tmp_path) == []
                    ada.may_answer.set()
                    await has_ended.wait()
                    waiting = await anyio.to_thread.run_sync(open_titles, path)
                    assert (created(tmp_path), list(waiting)) == (["of ada"], ["of bob"])
                    bob.may_answer.set()
    assert isinstance(answers["of ada"].value, int)
    assert "the user refused it" in answers["of bob"].text
    assert created(tmp_path) == ["of ada"]
    for person, own, foreign in ((ada, "of ada", "of bob"), (bob, "of bob", "of ada")):
        (asked,) = person.seen
        assert (own in asked.message, foreign in asked.message) == (True, False)


@EACH_ERA
async def test_each_host_is_asked_what_the_upstream_asks_in_its_own_call(tmp_path: Path, mode: Mode) -> None:
    """Both calls wait for their users at once, and the second user answers first. Without `concurrent_writes` the
    second call, which may write, would wait until the first user has answered."""
    ada, bob = Person("Oslo", "city"), Person("Rome", "city")
    values: dict[str, Any] = {}
    with serving(configuration(tmp_path, asking(tmp_path, "modern", concurrent_writes=True))) as served:
        async with (
            connected(served, tmp_path, mode, ada.elicit) as one,
            connected(served, tmp_path, mode, bob.elicit) as other,
        ):
            await one.settled()

            async def run(host: Host, city: str) -> None:
                values[city] = (await ask(host, ASK_CITY)).value

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run, one, "Oslo")
                    tasks.start_soon(run, other, "Rome")
                    await ada.is_asked.wait()
                    await bob.is_asked.wait()
                    bob.may_answer.set()
                    ada.may_answer.set()
    assert values == {city: [{"action": "accept", "content": {"city": city}}] for city in ("Oslo", "Rome")}
    assert (len(ada.seen), len(bob.seen)) == (1, 1)
