"""A person is asked before data that a session has read may go where others see it. Upstreams and hosts are real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codemode_server.app import App
from tests.attacks.test_flows import flowing

from .person import Person, choosing
from .product import Host, opened
from .test_approvals import NO, ONCE, PROGRAM, TOOL

READS = "from servers import bank, web\nbank.read()\nweb.read()\n"
POST = "from servers.board import post\npost(text='hello')\n"
ASKS = {"rules": [{"allow": "board"}], "flows": {"public_sinks": "ask"}}
BOTH = "private data (bank.read) and untrusted text (web.read): permissions.flows.public_sinks"


@asynccontextmanager
async def asked(folder: Path, person: Person, permissions: dict[str, Any]) -> AsyncIterator[tuple[App, Host]]:
    path = flowing(folder, **permissions)
    async with opened(path, mode="legacy", elicitation_callback=person.elicit) as both:
        yield both


def posted(folder: Path) -> int:
    log = folder / "board.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def test_the_question_names_both_sources_even_where_a_rule_allows_the_call(tmp_path: Path) -> None:
    person = choosing(NO, ONCE)
    async with asked(tmp_path, person, ASKS) as (app, host):
        assert (await host.run(POST)).content["status"] == "succeeded", "control"
        assert (person.seen, posted(tmp_path)) == ([], 1)
        refused = await host.run(READS + POST)
        assert "the user refused it" in refused.error["message"]
        assert posted(tmp_path) == 1
        await host.run(POST)
        assert posted(tmp_path) == 2
        rows = await app.stores.audit.rows(app.principal)
    assert len(person.seen) == 2
    assert BOTH in person.seen[0].message
    assert "bank.read: private" in person.seen[0].message
    assert "web.read: untrusted" in person.seen[0].message
    reasons = [row.event.reason or "" for row in rows if row.event.kind == "call_decided" and row.event.tool == "post"]
    assert [BOTH in reason for reason in reasons] == [False, True, True]


async def test_an_answer_for_the_session_does_not_cover_what_the_session_reads_later(tmp_path: Path) -> None:
    """The person approved the call for another reason, and did not know of the sources."""
    person = choosing(TOOL)
    permissions = {"rules": [{"ask": "board"}], "flows": {"public_sinks": "ask"}}
    async with asked(tmp_path, person, permissions) as (_, host):
        await host.run(POST)
        await host.run(POST)
        assert len(person.seen) == 1, "control"
        await host.run(READS + POST)
    assert len(person.seen) == 2
    assert BOTH in person.seen[1].message
    assert "rule 1 of permissions.rules" in person.seen[1].message
    assert posted(tmp_path) == 3


@pytest.mark.parametrize("answer", [TOOL, PROGRAM])
async def test_an_answer_does_not_cover_further_sources_of_the_same_kind(tmp_path: Path, answer: str) -> None:
    """What has been read since was not in the question, though the labels are the same."""
    person = choosing(answer, NO)
    async with asked(tmp_path, person, ASKS) as (_, host):
        further = await host.run(READS + POST + POST + "bank.echo(text='x')\n" + POST)
    assert "the user refused it" in further.text
    assert posted(tmp_path) == 2, "control: it covers what was read until then"
    assert len(person.seen) == 2
    assert "private data (bank.read, bank.echo)" in person.seen[1].message


async def test_what_is_read_while_the_person_is_asked_is_asked_about_as_well(tmp_path: Path) -> None:
    """The answer is given with the sources in view, though the call was sent before."""
    gate = tmp_path / "gate"

    class Reading(Person):
        async def elicit(self, _context: Any, params: Any) -> Any:
            if not self.seen:
                gate.touch()
                await host.until(lambda: (tmp_path / "read").exists())
            return await super().elicit(_context, params)

    person = Reading(contents=[{"answer": ONCE}])
    permissions = {"rules": [{"ask": "board"}], "flows": {"public_sinks": "ask"}}
    code = f"""
import asyncio
from servers import bank, web, calm, board
async def read():
    await asyncio.gather(bank.hold(text={str(gate)!r}), web.hold(text={str(gate)!r}))
    await calm.touch(text={str(tmp_path / "read")!r})
await asyncio.gather(board.post(text='hello'), read())
"""
    async with asked(tmp_path, person, permissions) as (_, host):
        assert (await host.run(code)).content["status"] == "succeeded"
    assert ["permissions.flows" in it.message for it in person.seen] == [False, True]
    assert posted(tmp_path) == 1
