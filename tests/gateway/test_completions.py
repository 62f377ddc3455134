"""Servers that do not answer a completion: neither one request nor many wait long. The server is a fake, since a real
one would make the test as long as the time that is allowed."""

from __future__ import annotations

from typing import Any

import anyio

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.principals import Session
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.gateway.completions import MAX_AT_ONCE, Completion, PromptCompletions
from codemode_server.settings import Settings

PLAN = PromptDefinition("plan")
REQUEST = RequestContext.of(Session("session"), LiveConfig(Settings()))


class Slow:
    def __init__(self) -> None:
        self.requests = 0
        self.answers = anyio.Event()

    async def complete(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        await self.answers.wait()
        return {"values": ["Oslo"]}


def server() -> Server:
    listing = UpstreamListing("travel", UpstreamState.READY, prompts=(PLAN,))
    return Catalog.build([listing]).servers[0]


async def test_a_server_that_does_not_answer_gives_no_values_in_time() -> None:
    completions = PromptCompletions(Slow(), LiveConfig(Settings()), timeout_s=0.01)
    with anyio.fail_after(10):
        assert await completions.complete(REQUEST, server(), PLAN, {"name": "city", "value": ""}, {}) == Completion()


async def test_a_server_is_asked_a_few_at_a_time_and_then_again() -> None:
    upstreams, asked = Slow(), server()
    completions = PromptCompletions(upstreams, LiveConfig(Settings()))
    found: list[Completion] = []

    async def complete() -> None:
        found.append(await completions.complete(REQUEST, asked, PLAN, {"name": "city", "value": ""}, {}))

    async with anyio.create_task_group() as tasks:
        for _ in range(MAX_AT_ONCE + 3):
            tasks.start_soon(complete)
        await anyio.wait_all_tasks_blocked()
        assert (upstreams.requests, found) == (MAX_AT_ONCE, [Completion()] * 3)
        upstreams.answers.set()
    await complete()
    assert found[3:] == [Completion(("Oslo",))] * (MAX_AT_ONCE + 1)
