"""A server that refuses a call until the person has opened an address (error -32042): the host's user is asked, and the
call is repeated once the server reports that they are done. The upstream is a real process, and notes each call.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load

from .person import Person
from .product import Answer, Host, configuration, in_memory
from .test_input_requests import asking, both_sides, told

pytestmark = pytest.mark.slow

ADDRESS = {"mode": "url", "message": "Sign in.", "url": "https://door.example/in?key=4711", "elicitationId": "e1"}


class Visitor(Person):
    """Opens the door so many seconds after having accepted; None: never."""

    def __init__(self, door: Path, action: str = "accept", after_s: float | None = 0.0) -> None:
        super().__init__(action)
        self.door = door
        self.after_s = after_s

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        if self.after_s == 0.0:
            self.door.touch()
        elif self.after_s is not None:
            asyncio.get_running_loop().call_later(self.after_s, self.door.touch)
        return await super().elicit(context, params)


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return tmp_path / "door"


async def enter(host: Host, door: Path, *addresses: dict[str, Any], times: int = 1, **more: Any) -> Answer:
    arguments = {"elicitations": list(addresses or (ADDRESS,)), "door": str(door), **more}
    code = f"""\
import asyncio
from servers.asking import enter
return await asyncio.gather(*[enter(**{arguments!r}) for _ in range({times})])
"""
    return await host.run(code)


@both_sides
async def test_the_user_opens_the_address_and_the_call_is_repeated(
    tmp_path: Path, door: Path, host_era: str, era: str
) -> None:
    visitor = Visitor(door)
    path = configuration(tmp_path, asking(tmp_path, era))
    async with in_memory(path, mode=host_era, **visitor.callbacks) as host:
        assert (await enter(host, door)).value == ["entered"]
    (seen,) = visitor.seen
    assert seen.url == ADDRESS["url"]
    assert seen.message.startswith("The MCP server 'asking' asks: Sign in.")
    assert "opens door.example." in seen.message
    assert told(tmp_path, "enter") == [False, True]


@pytest.mark.parametrize(("action", "said"), [("decline", "and declined"), ("cancel", "and did not answer")])
async def test_a_user_who_does_not_want_to_is_asked_once_and_the_program_is_told(
    tmp_path: Path, door: Path, action: str, said: str
) -> None:
    visitor = Visitor(door, action, after_s=None)
    async with in_memory(configuration(tmp_path, asking(tmp_path, "legacy")), **visitor.callbacks) as host:
        message = (await enter(host, door, times=3)).error["message"]
    assert f"the user was asked to open door.example, {said}" in message
    assert len(visitor.seen) == 1
    entered = told(tmp_path, "enter")  # the first refusal may end the program before all three are sent
    assert 1 <= len(entered) <= 3
    assert not any(entered)


@pytest.mark.parametrize("elicitation", ["forward", "decline"])
async def test_where_the_host_cannot_show_it_the_program_reads_whose_page_it_is_and_the_log_has_the_address(
    tmp_path: Path, door: Path, caplog: pytest.LogCaptureFixture, elicitation: str
) -> None:
    """The model does not get the address itself: it may hold what only the person should have."""
    callbacks = {} if elicitation == "forward" else Visitor(door).callbacks
    path = configuration(tmp_path, asking(tmp_path, "legacy", elicitation=elicitation))
    async with in_memory(path, **callbacks) as host:
        with caplog.at_level(logging.WARNING):
            answer = await enter(host, door)
    assert "the user has to open the address at door.example, which this host can't show" in answer.error["message"]
    assert "4711" not in answer.error["message"]
    assert "server 'asking' needs you to open this address before it goes on: https://door.example/in?key=4711" in (
        caplog.text
    )


@pytest.mark.parametrize("url", ["http://door.example/in", "https://door.example@evil.example/in", "file:///etc", None])
async def test_an_address_that_no_person_should_open_is_not_shown(
    tmp_path: Path, door: Path, caplog: pytest.LogCaptureFixture, url: str | None
) -> None:
    visitor = Visitor(door)
    async with in_memory(configuration(tmp_path, asking(tmp_path, "legacy")), **visitor.callbacks) as host:
        message = (await enter(host, door, {**ADDRESS, "url": url})).error["message"]
    assert "the user was not asked: " in message
    assert visitor.seen == []
    assert "before it goes on" not in caplog.text


async def test_the_audit_has_one_call_and_how_the_user_answered(tmp_path: Path, door: Path) -> None:
    path = configuration(tmp_path, asking(tmp_path, "legacy"))
    async with App.open(load(path)) as app, Client(app.front, **Visitor(door).callbacks) as client:
        await enter(Host(client, tmp_path), door)
        events = [row.event for row in await app.stores.audit.rows(app.principal)]
    (asked,) = [event for event in events if event.kind == "input_requested"]
    assert (asked.tool, asked.reason, asked.status) == ("enter", "URL elicitation", "accept")
    (retried,) = [event for event in events if event.kind == "call_retried"]
    assert (retried.seq, retried.tool, retried.reason) == (1, "enter", "opened_address")
    assert [event.status for event in events if event.kind == "call_ended"] == ["succeeded"]
