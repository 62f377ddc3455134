"""What a session has read: how long it counts, in which products, and what a killed one leaves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from codemode_server.calls.events import CallSending
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.flows import EPHEMERAL, SESSION_LOGS, WORKSPACE, Holder, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.data_flow import read_sources, source_store
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.features.data_flow.source_store import EPHEMERAL_SECONDS, SourceStore
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.ownership import LockedFolders
from codemode_server.storage.tables import executions, session_sources

NOW = time.time()
PRINCIPAL = Principal(PrincipalId("default"))
ONE: Holder = (PRINCIPAL.principal_id, "one")
ALL_REQUESTS: Holder = (PRINCIPAL.principal_id, EPHEMERAL)
BANK = Source("bank", "read", "bank.read", frozenset({"private"}), NOW - 10)
BEGAN_AT = NOW - 5
X1 = ExecutionId("x1")
STRICT = LiveConfig(Settings.model_validate({"permissions": {"flows": {"public_sinks": "deny"}}}))


class Product:
    """One of those that share a database."""

    def __init__(self, state: State, config: LiveConfig) -> None:
        self.thread = DatabaseThread(state.place)
        self.owner = LockedFolders(state.folder)
        self.store = SourceStore(state.database, self.thread, lambda: state.now)
        self.unwritten: list[Exception] = []
        self.sources = ReadSources(config, self.store, lambda _, error: self.unwritten.append(error), lambda: state.now)

    def send(self, caller: Caller, source: Source = BANK) -> None:
        """A call to it is about to be recorded."""
        self.sources.source = lambda target: source  # type: ignore[method-assign]
        calls: Any = SimpleNamespace(caller=caller, execution_id=ExecutionId("x9"))
        event: Any = partial(CallSending, calls)
        self.sources.take_event(event(call=None, target=None, progress=None))

    async def seen(self, caller: Caller) -> list[tuple[tuple[str, str], bool]]:
        return [(it.key, it.is_in_workspace) for it in await self.sources.of(caller)]

    def kill(self) -> None:
        self.thread.close()
        self.owner.close()


class State:
    """What several products share, one after the other or at once."""

    def __init__(self, folder: Path, place: DatabasePlace) -> None:
        self.folder = folder
        self.place = place
        self.database = Database(place)
        self.now = NOW
        self.products: list[Product] = []

    def product(self, config: LiveConfig | None = None) -> Product:
        self.products.append(Product(self, config or LiveConfig()))
        return self.products[-1]

    def restarted(self, newest_change: float = 0.0, config: LiveConfig | None = None) -> Product:
        """One that starts after the others were killed."""
        for it in self.products:
            it.kill()
        self.products.clear()
        started = self.product(config)
        started.store.settle(started.owner, lambda _: newest_change)
        return started

    def begin(self, product: Product) -> None:
        """A product begins a program of `ONE`, as its journal records that."""
        row: dict[str, object] = {"execution_id": X1, "principal": ONE[0], "session_id": ONE[1], "holder": ONE[1]}
        row |= {"owner": product.owner.name(), "started_at": BEGAN_AT}
        row |= {"is_ephemeral": False, "is_dry_run": False, "status": "running"}
        with self.database.begin() as connection:
            connection.execute(insert(executions), row)

    def end(self) -> None:
        with self.database.begin() as connection:
            connection.execute(update(executions).values(holder=None, status="succeeded"))


@pytest.fixture
async def state(tmp_path: Path, place: DatabasePlace) -> AsyncIterator[State]:
    state = State(tmp_path, place)
    yield state
    for it in state.products:
        it.kill()
    state.database.close()


def context(session: str, *, is_ephemeral: bool = False) -> Caller:
    return Caller(PRINCIPAL, Session(session, is_ephemeral), LiveConfig())


REQUEST = context("r1", is_ephemeral=True)


async def test_a_session_keeps_its_sources_after_a_restart_since_its_executions_may_be_resumed(state: State) -> None:
    await state.product().store.add(ONE, [BANK])
    product = state.restarted()
    assert list(await product.sources.of(context("one"))) == [BANK]
    assert await product.seen(context("two")) == []


async def test_many_sources_of_one_displace_none_of_the_last_day_of_another(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_store, "_MAX_ROWS", 3)
    yesterday = replace(BANK, at=NOW - 2 * EPHEMERAL_SECONDS)
    store = state.product().store
    await store.add((PRINCIPAL.principal_id, "yesterday"), [yesterday])
    await store.add(ONE, [BANK])
    await store.add((PrincipalId("other"), "many"), [replace(BANK, tool=f"t{n}", at=NOW) for n in range(4)])
    product = state.restarted()
    assert await product.seen(context("one")) == [(BANK.key, False)]
    assert await product.seen(context("yesterday")) == [], "control"


async def test_a_program_that_a_killed_product_ran_counts_as_a_writer_of_what_changed_since(state: State) -> None:
    first = state.product()
    await first.store.add(ONE, [BANK])
    state.begin(first)
    second = state.restarted(newest_change=BEGAN_AT + 1)
    assert await second.seen(context("two")) == [(BANK.key, True)]
    third = state.restarted(newest_change=BEGAN_AT - 1)
    assert await third.seen(context("two")) == [], "nothing is left of it"


async def test_a_product_that_begins_its_first_program_while_another_one_starts_is_not_taken_for_killed(
    state: State,
) -> None:
    first, second = state.product(), state.product()
    await first.store.add(ONE, [BANK])

    class Starting(LockedFolders):
        def others(self) -> set[str]:
            found = super().others()
            state.begin(first)
            return found

    second.store.settle(Starting(state.folder), lambda _: 0.0)
    with state.database.begin(reads=True) as connection:
        assert connection.execute(select(executions.c.holder)).scalars().all() == [ONE[1]]


async def test_what_a_session_could_have_written_is_all_that_it_has_read_in_any_product(state: State) -> None:
    for config in (LiveConfig(), STRICT):
        product, session = state.product(config), f"{config is STRICT}"
        assert await product.sources.read_by(X1, context(session)) == []
        product.send(context(session))
        assert [*await product.sources.read_by(X1, context(session))] == [BANK]
        assert [*await state.restarted(config=config).sources.read_by(X1, context(session))] == [BANK]
    await state.product().sources.take_over(REQUEST, [BANK])
    assert await state.product().sources.read_by(X1, REQUEST) != []


async def test_a_file_counts_from_the_first_program_on_that_wrote_it(state: State) -> None:
    """One that began before another one and ended after it may have written its file before both."""
    product = state.product()
    for began_at in (state.now - 5, state.now - 9, state.now - 1):
        product.sources.pass_on(X1, context("one"), WORKSPACE, [BANK], began_at)
    later = state.restarted(newest_change=state.now - 8)
    assert await later.seen(context("two")) == [(BANK.key, True)]
    assert await state.restarted(newest_change=state.now - 10).seen(context("two")) == []


async def test_what_a_product_remembers_to_have_written_is_bounded_and_nothing_is_lost(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_sources, "_MAX_SESSIONS", 3)
    product = state.product()
    for number in range(5):
        product.send(context(f"s{number}"))
    for number in range(5):
        assert await product.seen(context(f"s{number}")) == [(BANK.key, False)]
        assert await product.sources.read_by(X1, context(f"s{number}")) == [BANK]


async def test_what_another_product_has_read_counts_once_its_programs_may_have_written_it(state: State) -> None:
    """Known at the next decision, whenever that product read it; nothing that may be in memory there is forgotten."""
    first, other = state.product(), state.product()
    state.begin(other)
    assert await first.seen(context("two")) == [], "control"
    await other.store.add(ONE, [BANK])
    assert await first.seen(context("two")) == [(BANK.key, True)]
    state.end()
    assert await first.seen(context("two")) == [], "it has changed nothing"
    await other.store.add((PRINCIPAL.principal_id, WORKSPACE), [BANK])
    other.owner.name()  # it lives
    third = state.product()
    third.store.settle(third.owner, lambda _: 0.0)
    assert await third.seen(context("two")) == [(BANK.key, True)], "the file is gone, and may have been read"


async def test_sessions_that_end_with_their_request_count_as_one_in_all_products_for_a_day(state: State) -> None:
    first, other = state.product(), state.product()
    await other.sources.take_over(REQUEST, [BANK])
    assert await first.seen(REQUEST) == [(BANK.key, False)]
    assert await first.seen(context("two")) == []
    state.now += EPHEMERAL_SECONDS - 60
    other.send(REQUEST, replace(BANK, at=state.now))
    await other.store.of_session(ALL_REQUESTS)
    state.now += 120
    assert await first.seen(REQUEST) == [(BANK.key, False)], "it was read again"
    state.now += EPHEMERAL_SECONDS
    assert await first.seen(REQUEST) == []


async def test_a_call_on_its_way_hides_nothing_that_another_product_has_read_by_the_same_tool(state: State) -> None:
    """A product took it for unread as long as its own call to the tool was on its way."""
    first, other = state.product(STRICT), state.product(STRICT)
    first.send(REQUEST)
    other.send(REQUEST)
    assert await other.seen(REQUEST) == [(BANK.key, False)]
    assert await first.seen(REQUEST) == [(BANK.key, False)]


@pytest.mark.parametrize("is_ephemeral", [True, False])
async def test_what_a_session_is_given_is_known_to_all_products_before_it_has_it(
    state: State, is_ephemeral: bool
) -> None:
    first, other = state.product(), state.product()
    caller = context("two", is_ephemeral=is_ephemeral)
    await first.store.add(ONE, [BANK])
    await first.sources.take_over_session(caller, Session("one"), has_read=True)
    assert await other.seen(caller) == [(BANK.key, False)]


async def test_who_resumes_a_live_program_of_another_session_gets_what_that_reads_until_it_has_ended(
    state: State,
) -> None:
    product, web = state.product(), Source("web", "read", "web.read", frozenset({"untrusted"}), NOW)
    product.send(context("one"))
    await product.sources.share(X1, context("one"), context("two"))
    assert await product.seen(context("two")) == [(BANK.key, False)]
    product.send(context("one"), web)
    assert sorted(await product.seen(context("two"))) == [(BANK.key, False), (web.key, False)]
    product.sources.end_sharing(X1)
    product.send(context("one"), replace(web, tool="other"))
    assert len(await product.seen(context("two"))) == 2


async def test_what_was_forgotten_counts_again_in_every_product_once_it_is_read_again(state: State) -> None:
    """A command in a process of its own forgets it; no product is told."""
    first, other, command = state.product(STRICT), state.product(STRICT), state.product()
    first.send(REQUEST)
    assert await first.seen(REQUEST) == [(BANK.key, False)], "control"
    await command.store.forget([ALL_REQUESTS])
    assert (await first.seen(REQUEST), await other.seen(REQUEST)) == ([], [])
    first.send(REQUEST)
    await first.store.of_session(ALL_REQUESTS)
    assert await other.seen(REQUEST) == [(BANK.key, False)]


async def test_a_tool_whose_labels_change_keeps_those_that_it_had_when_it_was_read(state: State) -> None:
    product = state.product(STRICT)
    for labels in ("private", ""):
        product.send(REQUEST, replace(BANK, labels=frozenset(labels.split())))
    (found,) = await product.sources.of(REQUEST)
    assert found.labels == {"private"}


async def test_a_source_that_can_t_be_written_ends_its_execution(state: State) -> None:
    product = state.product()
    with state.database.begin() as connection:
        session_sources.drop(connection)
    product.send(context("one"))
    with pytest.raises(JournalUnavailable):
        await product.sources.of(context("one"))
    assert product.unwritten
    assert await product.sources.is_restricted(context("one")) is False, "control: no rule depends on it"
    assert await state.product(STRICT).sources.is_restricted(context("one"))


async def test_what_only_the_log_of_a_session_passes_on_counts_where_rules_depend_on_it(state: State) -> None:
    product = state.product()
    product.sources.pass_on(X1, context("one"), SESSION_LOGS, [BANK], NOW)
    assert await product.sources.labelled(context("two")) == ()
    later = state.restarted(newest_change=state.now)
    assert await later.seen(context("two")) == []
    assert await state.product(STRICT).seen(context("two")) == [(BANK.key, True)]


async def test_a_server_cant_name_its_tools_so_that_what_they_read_is_not_stored(state: State) -> None:
    """PostgreSQL takes no NUL in a text, and neither database half of a surrogate pair."""
    store, odd = state.product().store, Source("bank", "re\0ad\ud800", "bank.re\0ad\ud800", frozenset(), NOW)
    await store.add(ONE, [odd, BANK])
    assert [it.tool for it in await store.of_session(ONE)] == ["read", "re\ufffdad?"]
