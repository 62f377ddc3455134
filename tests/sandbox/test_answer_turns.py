"""A program gets the answers to its calls in the order in which they came, whatever their size: in that order a program
that runs again gets them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codemode_server.sandbox.contract import Reply
from tests.sandbox.lab import Lab, Tools

pytestmark = pytest.mark.asyncio(loop_scope="session")
CODE = """
import asyncio
from servers.github import echo
arrived = []
async def one(name):
    await echo(name=name)
    arrived.append(name)
async def main():
    await asyncio.gather(*map(one, ["small", "large", "small too"]))
asyncio.run(main())
arrived
"""


class LargeFirst(Tools):
    """Answers the call `large` first, with a result that takes long to encode, and the others at once after it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_answered = anyio.Event()

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False) -> Reply:
        if arguments["name"] == "large":
            await anyio.wait_all_tasks_blocked()
            self._is_answered.set()
            return Reply([{"number": number, "text": "x" * 50} for number in range(30_000)])
        await self._is_answered.wait()
        return Reply(arguments["name"])


@pytest.mark.portable
async def test_a_small_answer_does_not_overtake_a_large_one(lab: Lab) -> None:
    assert (await lab.run(CODE, LargeFirst())).value == ["large", "small", "small too"]
