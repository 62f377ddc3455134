"""What a session has read: how long it is held, what a killed product leaves, and how much is held at most."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.flows import WORKSPACE, Holder, RunningProgram, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.data_flow import read_sources
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.features.data_flow.source_store import SourceStore
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.ownership import LockedFolders
from codemode_server.storage.tables import executions

NOW = time.time()
PRINCIPAL = Principal(PrincipalId("default"))
ONE: Holder = (PRINCIPAL.principal_id, "one")
BANK = Source("bank", "read", "bank.read", frozenset({"private"}), NOW - 10)
RUNNING = RunningProgram(ExecutionId("x1"), ONE, NOW - 5)


class State:
    """A state folder, and the products that use it one after the other."""

    def __init__(self, folder: Path, place: DatabasePlace) -> None:
        self.folder = folder
        self.place = place
        self.database = Database(place)
        self.now = NOW
        self.threads: list[DatabaseThread] = []
        self.owners: list[LockedFolders] = []

    def store(self) -> SourceStore:
        self.threads.append(DatabaseThread(self.place))
        self.owners.append(LockedFolders(self.folder))
        return SourceStore(self.database, self.threads[-1], self.folder, self.owners[-1])

    def begin(self, program: RunningProgram = RUNNING) -> None:
        """The product of the last store begins a program, as its journal records that."""
        row: dict[str, object] = {
            "execution_id": program.execution_id,
            "principal": program.holder[0],
            "session_id": program.holder[1],
        }
        row |= {"holder": program.holder[1], "owner": self.owners[-1].name(), "started_at": program.began_at}
        row |= {"is_ephemeral": False, "is_dry_run": False, "status": "running"}
        with self.database.begin() as connection:
            connection.execute(insert(executions), row)

    def end(self) -> None:
        with self.database.begin() as connection:
            connection.execute(update(executions).values(holder=None, status="succeeded"))

    def kill(self) -> None:
        for thread, owner in zip(self.threads, self.owners, strict=True):
            thread.close()
            owner.close()

    async def product(self, newest_change: float = 0.0) -> ReadSources:
        """One that starts after the others were killed."""
        self.kill()
        sources = ReadSources(LiveConfig(), store := self.store(), lambda: self.now)
        sources.load(lambda _: newest_change)
        await store.of_session(ONE)  # what it has queued is committed now
        return sources


@pytest.fixture
async def state(tmp_path: Path, place: DatabasePlace) -> AsyncIterator[State]:
    state = State(tmp_path, place)
    yield state
    state.kill()
    state.database.close()


def context(session: str, *, is_ephemeral: bool = False) -> Caller:
    return Caller(PRINCIPAL, Session(session, is_ephemeral), LiveConfig())


async def test_a_session_keeps_its_sources_after_a_restart_since_its_executions_may_be_resumed(state: State) -> None:
    state.store().add(ONE, [BANK])
    sources = await state.product()
    assert list(sources.of(context("one"))) == [BANK]
    assert list(sources.of(context("two"))) == []


async def test_a_program_that_a_killed_product_ran_counts_as_a_writer_of_what_changed_since(state: State) -> None:
    store = state.store()
    store.add(ONE, [BANK])
    state.begin()
    (found,) = (await state.product(newest_change=RUNNING.began_at + 1)).of(context("two"))
    assert (found.key, found.is_in_workspace) == (BANK.key, True)
    assert list((await state.product(newest_change=RUNNING.began_at - 1)).of(context("two"))) == [], (
        "nothing is left of it"
    )


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
    sources = await state.product(newest_change=NOW)
    assert BANK.key in {it.key for it in sources.of(context("new"))}


async def test_what_another_product_has_read_counts_once_its_programs_may_have_written_it(state: State) -> None:
    """Known at the next decision, whenever that product read it; nothing that may be in memory there is forgotten."""
    first, second = await state.product(), ReadSources(LiveConfig(), other := state.store(), lambda: state.now)
    state.begin()
    assert list(first.of(context("two"))) == [], "control"
    other.add(ONE, [BANK])
    await other.of_session(ONE)  # what was queued before is committed now
    assert [(it.key, it.is_in_workspace) for it in first.of(context("two"))] == [(BANK.key, True)]
    assert list(second.of(context("two"))) == [], "its own are known to it"
    state.end()
    assert list(first.of(context("two"))) == [], "it has changed nothing"
    other.add((PRINCIPAL.principal_id, WORKSPACE), [BANK])
    await other.of_session(ONE)
    third = ReadSources(LiveConfig(), state.store(), lambda: state.now)
    third.load(lambda _: 0.0)
    assert [it.key for it in third.of(context("two"))] == [BANK.key], "the file is gone, and may have been read"


async def test_sessions_that_end_with_their_request_count_as_one_in_all_products(state: State) -> None:
    first, second = await state.product(), ReadSources(LiveConfig(), other := state.store(), lambda: state.now)
    request = context("r1", is_ephemeral=True)
    second.take_over(request, [BANK])
    await other.of_session(ONE)
    assert [(it.key, it.is_in_workspace) for it in first.of(request)] == [(BANK.key, False)]
    assert list(first.of(context("two"))) == []


async def test_what_only_the_log_of_a_session_passes_on_counts_where_rules_depend_on_it(state: State) -> None:
    state.store().add(ONE, [BANK])
    sources = await state.product()
    sources.begin(ExecutionId("x2"), context("one"))
    sources.end(ExecutionId("x2"), state.now - 1, is_logged=True)
    assert sources.labelled(context("two")) == ()
    later = await state.product(newest_change=state.now)
    assert list(later.of(context("two"))) == []
    ruled = LiveConfig(Settings.model_validate({"permissions": {"flows": {"public_sinks": "deny"}}}))
    strict = ReadSources(ruled, state.store(), lambda: state.now)
    strict.load(lambda _: state.now)
    assert [(it.key, it.is_in_workspace) for it in strict.of(context("two"))] == [(BANK.key, True)]


async def test_a_server_cant_name_its_tools_so_that_what_they_read_is_not_stored(state: State) -> None:
    """PostgreSQL takes no NUL in a text, and neither database half of a surrogate pair."""
    store, odd = state.store(), Source("bank", "re\0ad\ud800", "bank.re\0ad\ud800", frozenset(), NOW)
    store.add(ONE, [odd, BANK])
    assert [it.tool for it in await store.of_session(ONE)] == ["read", "re\ufffdad?"]
    store.remove(ONE, [odd])
    assert [it.tool for it in await store.of_session(ONE)] == ["read"]
