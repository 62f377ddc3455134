"""What a session has read: how long it is held, what a killed product leaves, and how much is held at most."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.flows import WORKSPACE, Holder, RunningProgram, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.gateway import read_sources
from codemode_server.gateway.read_sources import ReadSources
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_sources import SqliteSources

NOW = time.time()
PRINCIPAL = Principal(PrincipalId("default"))
ONE: Holder = (PRINCIPAL.principal_id, "one")
BANK = Source("bank", "read", "bank.read", frozenset({"private"}), NOW - 10)
RUNNING = RunningProgram(ExecutionId("x1"), ONE, NOW - 5)


class State:
    """A state folder, and the products that use it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW
        self.threads: list[DatabaseThread] = []

    def store(self) -> SqliteSources:
        self.threads.append(DatabaseThread(self.folder))
        return SqliteSources(Database(self.folder), self.threads[-1])

    def product(self, newest_change: float = 0.0) -> ReadSources:
        """One that starts after the others were killed."""
        for thread in self.threads:
            thread.close()
        sources = ReadSources(LiveConfig(), self.store(), lambda: self.now)
        sources.load(lambda _: newest_change)
        return sources


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[State]:
    state = State(tmp_path)
    yield state
    for thread in state.threads:
        thread.close()


def context(session: str, *, is_ephemeral: bool = False) -> RequestContext:
    return RequestContext(PRINCIPAL, Session(session, is_ephemeral), LiveConfig())


async def test_a_session_keeps_its_sources_after_a_restart_since_its_executions_may_be_resumed(state: State) -> None:
    state.store().add(ONE, [BANK])
    sources = state.product()
    assert list(sources.of(context("one"))) == [BANK]
    assert list(sources.of(context("two"))) == []


async def test_a_program_that_a_killed_product_ran_counts_as_a_writer_of_what_changed_since(state: State) -> None:
    store = state.store()
    store.add(ONE, [BANK])
    store.begin(RUNNING)
    assert list(state.product(newest_change=RUNNING.began_at - 1).of(context("two"))) == [], "control"
    (found,) = state.product(newest_change=RUNNING.began_at + 1).of(context("two"))
    assert (found.key, found.is_in_workspace) == (BANK.key, True)


async def test_a_program_that_has_ended_leaves_nothing_behind_if_it_changed_nothing(state: State) -> None:
    store = state.store()
    store.add(ONE, [BANK])
    sources = state.product()
    for newest, expected in ((state.now - 1, 0), (state.now, 1)):
        await sources.begin(ExecutionId("x2"), context("one"), has_files=False)
        assert len(list(sources.of(context("two")))) == 1, "it may write as long as it runs"
        assert sources.may_pass_on(ExecutionId("x2"))
        sources.end(ExecutionId("x2"), newest)
        assert len(list(sources.of(context("two")))) == expected
    assert list(state.product(newest_change=state.now).of(context("three"))) != []


async def test_beyond_a_number_of_sessions_the_oldest_counts_for_all(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forgotten that a flood of sessions could push out."""
    monkeypatch.setattr(read_sources, "_MAX_SESSIONS", 3)
    store = state.store()
    store.add(ONE, [BANK])
    for number in range(3):
        later = Source("web", "fetch", "web.fetch", frozenset(), BANK.at + 1 + number)
        store.add((PRINCIPAL.principal_id, f"s{number}"), [later])
    sources = state.product(newest_change=NOW)
    assert BANK.key in {it.key for it in sources.of(context("new"))}


async def test_another_product_on_the_same_database_is_asked_what_its_running_programs_may_write(state: State) -> None:
    first, second = state.store(), state.store()
    first.add(ONE, [BANK])
    assert await second.of_other_products(PRINCIPAL.principal_id) == []
    first.begin(RUNNING)
    await first.of_other_products(PRINCIPAL.principal_id)  # what was queued before is written now
    assert [it.key for it in await second.of_other_products(PRINCIPAL.principal_id)] == [BANK.key]
    assert await first.of_other_products(PRINCIPAL.principal_id) == [], "its own are known to it"
    first.end(RUNNING.execution_id)
    first.add((PRINCIPAL.principal_id, WORKSPACE), [BANK])
    await first.of_other_products(PRINCIPAL.principal_id)
    assert [it.is_in_workspace for it in await second.of_other_products(PRINCIPAL.principal_id)] == [True]
