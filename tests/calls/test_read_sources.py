"""What a session has read: how long it is held, what a killed product leaves, and how much is held at most."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.flows import WORKSPACE, Holder, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.data_flow import read_sources
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.features.data_flow.sqlite_sources import SqliteSources
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread

NOW = time.time()
PRINCIPAL = Principal(PrincipalId("default"))
ONE: Holder = (PRINCIPAL.principal_id, "one")
BANK = Source("bank", "read", "bank.read", frozenset({"private"}), NOW - 10)


class State:
    """A state folder, and the products that use it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW
        self.threads: list[DatabaseThread] = []

    def store(self) -> SqliteSources:
        self.threads.append(DatabaseThread(self.folder))
        return SqliteSources(Database(self.folder), self.threads[-1])

    def kill(self) -> None:
        for thread in self.threads:
            thread.close()

    async def product(self, newest_change: float = 0.0) -> ReadSources:
        """One that starts after the others were killed."""
        self.kill()
        sources = ReadSources(LiveConfig(), self.store(), lambda: self.now)
        sources.load(lambda _: newest_change)
        await self.settled()
        return sources

    async def settled(self) -> None:
        """What is queued is committed now."""
        for thread in self.threads:
            with suppress(JournalUnavailable):
                await thread.rows("SELECT 1", ())


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[State]:
    state = State(tmp_path)
    yield state
    state.kill()


def context(session: str, *, is_ephemeral: bool = False) -> Caller:
    return Caller(PRINCIPAL, Session(session, is_ephemeral), LiveConfig())


async def test_a_session_keeps_its_sources_after_a_restart_since_its_executions_may_be_resumed(state: State) -> None:
    state.store().add(ONE, [BANK])
    sources = await state.product()
    assert list(sources.of(context("one"))) == [BANK]
    assert list(sources.of(context("two"))) == []


async def test_a_program_that_has_ended_leaves_nothing_behind_if_it_changed_nothing(state: State) -> None:
    store = state.store()
    store.add(ONE, [BANK])
    sources = await state.product()
    for newest, expected in ((state.now - 1, 0), (state.now, 1)):
        sources.begin(ExecutionId("x2"), context("one"))
        assert len(list(sources.of(context("two")))) == 1, "it may write as long as it runs"
        assert sources.may_pass_on(ExecutionId("x2"))
        sources.end(ExecutionId("x2"), newest)
        assert len(list(sources.of(context("two")))) == expected
    assert list((await state.product(newest_change=state.now)).of(context("three"))) != []


async def test_beyond_a_number_of_sessions_the_database_knows(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_sources, "_MAX_SESSIONS", 3)
    sources = await state.product()
    for number in range(5):
        sources.take_over(context(f"s{number}"), [BANK])
    await state.settled()
    assert [it.key for it in sources.of(context("s0"))] == [BANK.key]


async def test_what_another_product_has_noted_of_the_workspace_counts_at_the_next_decision(state: State) -> None:
    first, other = await state.product(), state.store()
    assert list(first.of(context("two"))) == [], "control"
    other.add((PRINCIPAL.principal_id, WORKSPACE), [BANK])
    await state.settled()
    assert [(it.key, it.is_in_workspace) for it in first.of(context("two"))] == [(BANK.key, True)]


async def test_sessions_that_end_with_their_request_count_as_one_in_all_products(state: State) -> None:
    first, second = await state.product(), ReadSources(LiveConfig(), state.store(), lambda: state.now)
    request = context("r1", is_ephemeral=True)
    second.take_over(request, [BANK])
    await state.settled()
    assert [(it.key, it.is_in_workspace) for it in first.of(request)] == [(BANK.key, False)]
    assert list(first.of(context("two"))) == []
