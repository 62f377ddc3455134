"""Several hosts over HTTP on one product: a question about a call reaches the host that made it, and its answer holds
for that call alone. The product is a process of its own, the clients are real, and so is the command that answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.behaviour.product import Host, configuration, office
from tests.behaviour.test_approvals import ASK, NO, ONCE, SESSION
from tests.cli.pseudo_terminal import at_terminal
from tests.hosts.kit import Mode, Served, reached, serving

pytestmark = pytest.mark.slow
EACH_ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])


@dataclass
class Person:
    """One host's user, who answers once `may_answer` is set."""

    answer: str = ONCE
    is_asked: anyio.Event = field(default_factory=anyio.Event)
    may_answer: anyio.Event = field(default_factory=anyio.Event)
    seen: list[Any] = field(default_factory=list)

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.seen.append(params)
        self.is_asked.set()
        await self.may_answer.wait()
        return types.ElicitResult(action="accept", content={"answer": self.answer})


class WithoutForms(httpx2.AsyncHTTPTransport):
    """On the way to the product: takes the form out of what the client declares. mcp's client can't declare less."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if b'"elicitation"' in (content := await request.aread()):
            declared = json.loads(content)
            capabilities = declared["params"].get("capabilities") or next(
                value for key, value in declared["params"]["_meta"].items() if key.endswith("clientCapabilities")
            )
            del capabilities["elicitation"]["form"]
            headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
            request = httpx2.Request(
                request.method, request.url, headers=headers, json=declared, extensions=request.extensions
            )
        return await super().handle_async_request(request)


@asynccontextmanager
async def connected(
    served: Served, folder: Path, mode: Mode, elicit: Any = None, transport: httpx2.AsyncHTTPTransport | None = None
) -> AsyncIterator[Host]:
    callbacks = {} if elicit is None else {"elicitation_callback": elicit}
    async with (
        httpx2.AsyncClient(headers=served.headers, timeout=60, transport=transport) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode, **callbacks) as client,
    ):
        yield Host(client, folder)


def create(title: str) -> str:
    return f"from servers.github import create_issue\ncreate_issue(owner='o', repo='r', title='{title}')['number']"


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
                answers[title] = await host.run(create(title))
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


async def test_an_answer_for_a_session_does_not_hold_for_another_session(tmp_path: Path) -> None:
    """In 2025-11-25; over HTTP in 2026-07-28 there is no such answer."""
    ada, bob = Person(SESSION), Person(NO)
    ada.may_answer.set()
    bob.may_answer.set()
    with serving(config(tmp_path)) as served:
        async with (
            connected(served, tmp_path, "legacy", ada.elicit) as one,
            connected(served, tmp_path, "legacy", bob.elicit) as other,
        ):
            await one.settled()
            for title in ("first", "second"):
                assert isinstance((await one.run(create(title))).value, int)
            assert len(ada.seen) == 1, "control: it holds for her session"
            assert "the user refused it" in (await other.run(create("third"))).text
    assert (len(bob.seen), created(tmp_path)) == (1, ["first", "second"])


@EACH_ERA
async def test_a_host_without_forms_waits_for_the_command_while_another_is_asked_and_answers(
    tmp_path: Path, mode: Mode
) -> None:
    ada, path = Person(), config(tmp_path, answer_seconds=4)
    ada.may_answer.set()
    with serving(path) as served:
        async with connected(served, tmp_path, mode) as plain, connected(served, tmp_path, mode, ada.elicit) as other:
            await plain.settled()
            waiting = await plain.run(create("of nobody"))
            assert waiting.content["status"] == "waiting"
            assert isinstance((await other.run(create("of ada"))).value, int)
            assert created(tmp_path) == ["of ada"], "her answer is not his"
            questions = await anyio.to_thread.run_sync(open_titles, path)
            assert list(questions) == ["of nobody"]
            approve = [sys.executable, "-m", "codemode_server", "approvals", "approve", questions["of nobody"]]
            await anyio.to_thread.run_sync(at_terminal, [*approve, "--config", str(path)])
            resumed = await plain.call("execute_code", resume=waiting.content["execution_id"])
    assert isinstance(resumed.value, int)
    assert created(tmp_path) == ["of ada", "of nobody"]
    assert len(ada.seen) == 1


@EACH_ERA
async def test_a_host_that_shows_addresses_alone_gets_the_one_of_the_page(tmp_path: Path, mode: Mode) -> None:
    seen: list[Any] = []

    async def open_page(context: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        async with httpx2.AsyncClient() as browser:
            origin = str(params.url).partition("/approvals/")[0]
            answer = {"answer": "allow", "scope": "call"}
            await browser.post(str(params.url), data=answer, headers={"Origin": origin})
        return types.ElicitResult(action="accept")

    with serving(config(tmp_path)) as served:
        async with connected(served, tmp_path, mode, open_page, WithoutForms()) as host:
            await host.settled()
            assert isinstance((await host.run(create("by page"))).value, int)
    (asked,) = seen
    assert (asked.mode, created(tmp_path)) == ("url", ["by page"])
