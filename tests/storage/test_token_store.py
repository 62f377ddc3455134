"""The map of privacy tokens in the database: one token for one value, whoever asks, and nothing readable on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from sqlalchemy import Connection, Engine, select, update
from sqlalchemy.event import listen, remove

from codemode_server.domain.errors import TokensFull
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.privacy_tokens import PersonalValue, TokenLimits
from codemode_server.features import provided
from codemode_server.features.privacy import token_store
from codemode_server.features.privacy.token_store import TokenStore
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread, Step
from codemode_server.storage.tables import privacy_tokens
from codemode_server.storage.token_cipher import KEY_NAME, TokenCipher

ALICE, BOB = PrincipalId("alice"), PrincipalId("bob")
ANN = PersonalValue("email", "ann@example.org", "Ann@Example.org")
BEN = PersonalValue("email", "ben@example.org", "ben@example.org")
CLEO = PersonalValue("email", "cleo@example.org", "cleo@example.org")
Open = Callable[..., TokenStore]
T = TypeVar("T")


@pytest.fixture
def opened(place: DatabasePlace, tmp_path: Path) -> Iterator[Open]:
    """Opens the store of a product, each with a thread of its own."""
    with ExitStack() as stack:

        def open_one(
            *,
            expire_seconds: float | None = None,
            max_tokens: int = 1000,
            clock: Callable[[], float] = lambda: 1000.0,
        ) -> TokenStore:
            thread = stack.enter_context(closing(DatabaseThread(place)))
            limits = TokenLimits(max_tokens, expire_seconds)
            return TokenStore(thread, TokenCipher(tmp_path), lambda: limits, clock)

        yield open_one


def delete_old(database: Database) -> None:
    """As the upkeep does."""
    (delete,) = [it for it in provided("delete_old_rows") if it is token_store.delete_forgotten_tokens]
    while database.transact(partial(delete, 0.0)):
        pass


async def test_a_value_has_one_token_and_each_principal_and_label_its_own_numbers(opened: Open) -> None:
    store = opened()
    assert await store.tokens_for(ALICE, [ANN, BEN, ANN]) == ["<EMAIL_1>", "<EMAIL_2>", "<EMAIL_1>"]
    assert await store.tokens_for(BOB, [BEN]) == ["<EMAIL_1>"]
    phone = PersonalValue("phone", "+4930901820", "030 901820")
    assert await store.tokens_for(ALICE, [phone]) == ["<PHONE_1>"]
    (known,) = await store.find(ALICE, ["<EMAIL_1>", "<EMAIL_9>", "no token"])
    assert (known.kind, known.original) == ("email", "Ann@Example.org")


def numbered(start: int, stop: int) -> list[PersonalValue]:
    return [PersonalValue("email", f"p{number}@x.org", f"p{number}@x.org") for number in range(start, stop)]


async def test_a_server_gets_half_of_what_the_others_leave_and_forgetting_makes_room(opened: Open) -> None:
    store = opened(max_tokens=4)
    assert await store.tokens_for(ALICE, [ANN, BEN], "crm") == ["<EMAIL_1>", "<EMAIL_2>"]
    with pytest.raises(
        TokensFull, match=r"^1 of its values need new .* crm may get 0 more: it has 2, other servers have 0"
    ):
        await store.tokens_for(ALICE, [ANN, CLEO], "crm")
    assert await store.tokens_for(ALICE, [BEN, ANN], "crm") == ["<EMAIL_2>", "<EMAIL_1>"], "those it has it keeps"
    assert await store.tokens_for(ALICE, [CLEO], "hr") == ["<EMAIL_3>"], "another server has its share"
    assert await store.tokens_for(BOB, numbered(0, 2), "crm") == ["<EMAIL_1>", "<EMAIL_2>"], "others have their own"
    await store.forget(ALICE, ["<EMAIL_1>", "<EMAIL_2>"])
    assert await store.tokens_for(ALICE, [ANN], "crm") == ["<EMAIL_4>"]


async def test_many_values_take_as_many_statements_as_one(opened: Open) -> None:
    """A result with a thousand addresses must not wait for a server of the database a thousand times."""
    store, texts = opened(), list[str]()

    def note(connection: object, cursor: object, text: str, *_: object) -> None:
        if not text.startswith(("BEGIN", "PRAGMA", "SET")):
            texts.append(text)

    await store.tokens_for(ALICE, [CLEO], "crm")
    listen(Engine, "before_cursor_execute", note)
    try:
        for start, stop, count in ((0, 1, 5), (1, 101, 5), (0, 101, 1)):
            texts.clear()
            tokens = await store.tokens_for(ALICE, numbered(start, stop), "crm")
            assert len(texts) == count, texts
        await store.find(ALICE, tokens)
        assert len(texts) == 2
    finally:
        remove(Engine, "before_cursor_execute", note)


async def test_rows_of_forgotten_tokens_are_deleted_and_no_number_is_given_again(
    opened: Open, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a server that fills the map again and again, while its tokens expire, lets the database grow."""
    monkeypatch.setattr(token_store, "KEPT_CHANGES", 3)
    store = opened()
    await store.tokens_for(ALICE, [*numbered(0, 20), PersonalValue("phone", "+49", "+49")], "crm")
    await store.tokens_for(BOB, numbered(0, 1), "crm")
    await store.forget(ALICE, [*(f"<EMAIL_{number}>" for number in (1, *range(3, 21))), "<PHONE_1>"])
    delete_old(database)
    with database.begin(reads=True) as connection:
        left = connection.execute(select(*privacy_tokens.primary_key).order_by(*privacy_tokens.primary_key)).all()
    numbers = [(it.principal, it.number) for it in left if it.label == "EMAIL"]
    assert numbers == [(ALICE, 2), (ALICE, 19), (ALICE, 20), (BOB, 1)], (
        "that which stands for something, the latest three changes, and Bob's"
    )
    assert (ALICE, "PHONE", 1) in left, "the highest number"
    assert await store.tokens_for(ALICE, [ANN, PersonalValue("phone", "+4", "+4")]) == ["<EMAIL_21>", "<PHONE_2>"]
    found = await store.find(ALICE, ["<EMAIL_2>", "<EMAIL_19>", "<EMAIL_99>"])
    assert [(it.token, it.original) for it in found] == [("<EMAIL_2>", "p1@x.org"), ("<EMAIL_19>", None)]


async def test_products_that_work_at_the_same_time_give_no_number_twice(opened: Open) -> None:
    values = [PersonalValue("email", f"{number}@x.org", f"{number}@x.org") for number in range(200)]
    got: dict[int, list[str]] = {}

    async def ask(product: int) -> None:
        store, mixed = opened(), values if product % 2 else values[::-1]
        tokens: list[str] = []
        for start in range(0, len(mixed), 10):
            tokens += await store.tokens_for(ALICE, mixed[start : start + 10])
        got[product] = tokens if product % 2 else tokens[::-1]

    async with anyio.create_task_group() as tasks:
        for product in range(3):
            tasks.start_soon(ask, product)
    assert got[0] == got[1] == got[2]
    assert len(set(got[0])) == len(values)


async def test_a_step_that_a_conflict_undoes_is_done_again_with_the_same_result(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL two processes may give one number at the same time: one of them fails, and does its step again."""
    run = DatabaseThread.run

    async def run_twice(thread: DatabaseThread, step: Step[T], *, is_durable: bool = False) -> T:
        def twice(connection: Connection) -> T:
            with connection.begin_nested() as first:
                step(connection)
                first.rollback()
            return step(connection)

        return await run(thread, twice, is_durable=is_durable)

    monkeypatch.setattr(DatabaseThread, "run", run_twice)
    monkeypatch.setattr(token_store, "_AT_ONCE", 2)
    now = 1000.0
    store = opened(expire_seconds=100.0, clock=lambda: now)
    expected = ["<EMAIL_1>", "<EMAIL_2>", "<EMAIL_3>"]
    assert await store.tokens_for(ALICE, [ANN, BEN, CLEO]) == expected
    assert await store.forget(ALICE, ["<EMAIL_2>"]) == 1
    now += 200
    assert [it.original for it in await store.find(ALICE, expected)] == [None] * 3
    assert await store.tokens_for(ALICE, [ANN]) == ["<EMAIL_4>"]


async def test_what_was_forgotten_is_seen_by_others_and_its_number_is_not_used_again(opened: Open) -> None:
    one, other = opened(), opened()
    await one.tokens_for(ALICE, [ANN, BEN])
    before = await other.changes(ALICE, 0)
    assert [it.token for it in before.tokens] == ["<EMAIL_1>", "<EMAIL_2>"]
    assert await one.forget(ALICE, ["<EMAIL_2>", "<EMAIL_7>"]) == 1
    after = await other.changes(ALICE, before.number)
    assert [(it.token, it.original) for it in after.tokens] == [("<EMAIL_2>", None)]
    assert [it.token for it in await other.all(ALICE)] == ["<EMAIL_1>"]
    assert await other.tokens_for(ALICE, [BEN]) == ["<EMAIL_3>"]


async def test_a_token_expires_some_time_after_its_last_use(opened: Open) -> None:
    now = 1000.0
    store = opened(expire_seconds=86_400.0, clock=lambda: now)
    await store.tokens_for(ALICE, [ANN, BEN])
    now += 80_000
    await store.tokens_for(ALICE, [ANN])
    now += 10_000
    found = {it.token: it.original for it in await store.find(ALICE, ["<EMAIL_1>", "<EMAIL_2>"])}
    assert found == {"<EMAIL_1>": "Ann@Example.org", "<EMAIL_2>": None}


async def test_nothing_readable_is_stored_and_without_the_key_tokens_stand_for_nothing(
    opened: Open, database: Database, tmp_path: Path
) -> None:
    await opened().tokens_for(ALICE, [ANN])
    with database.begin(reads=True) as connection:
        (row,) = connection.execute(select(privacy_tokens)).all()
    assert row.principal == "alice", "control: the row is there"
    assert "xample" not in repr(row)
    (tmp_path / KEY_NAME).unlink()
    store = opened()
    assert [it.original for it in await store.find(ALICE, ["<EMAIL_1>"])] == [None]
    assert await store.tokens_for(ALICE, [ANN]) == ["<EMAIL_2>"], "the old fingerprint fits no value any more"


async def test_a_value_that_was_moved_to_another_row_is_not_believed(opened: Open, database: Database) -> None:
    """Who can write the database and has no key can't make one token stand for the value of another."""
    await opened().tokens_for(ALICE, [ANN, BEN])
    number, value = privacy_tokens.c.number, privacy_tokens.c.value
    with database.begin() as connection:
        moved = connection.execute(select(value).where(number == 1)).scalar_one()
        connection.execute(update(privacy_tokens).where(number == 2).values(value=moved))
    found = {it.token: it.original for it in await opened().find(ALICE, ["<EMAIL_1>", "<EMAIL_2>"])}
    assert found == {"<EMAIL_1>": "Ann@Example.org", "<EMAIL_2>": None}
