"""What the queries of a session have named counts in its later results, also where there are many names or sessions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codemode_server.gateway.query_fields import QueryFields

MADE = "CREATE TABLE w AS SELECT name AS who FROM persons"
READ = "SELECT * FROM w"


def aliases(begin: int, end: int) -> str:
    return f"SELECT {', '.join(f'name AS w{at}' for at in range(begin, end))} FROM persons"


async def counts(
    memory: QueryFields, sql: str, name: str = "who", *, session: str = "mine", server: str = "db"
) -> bool:
    """Whether the values of a field in the answer to a query count as names of persons, whatever they look like."""
    calls: Any = SimpleNamespace(context=SimpleNamespace(session=SimpleNamespace(session_id=session)))
    target: Any = SimpleNamespace(server=SimpleNamespace(raw_name=server))
    renamed = (await memory.of(calls, target, {"sql": sql})).of(name)
    return renamed is not None and "name" in renamed.names and renamed.is_of_person is True


@pytest.mark.parametrize(
    ("others", "is_known"),
    [([], False), ([MADE], True), ([MADE, aliases(0, 200)], True), ([aliases(0, 150), MADE, aliases(150, 210)], True)],
    ids=["nothing named", "named once", "200 newer names", "named between others"],
)
async def test_a_name_counts_whatever_was_named_since(others: list[str], is_known: bool) -> None:
    memory = QueryFields()
    for sql in others:
        await counts(memory, sql)
    assert await counts(memory, READ) is is_known


async def test_a_name_that_is_sent_again_is_the_newest() -> None:
    memory = QueryFields()
    for sql in (MADE, aliases(0, 150), MADE, aliases(150, 199)):
        await counts(memory, sql)
    assert await counts(memory, READ)
    assert not await counts(memory, READ, "city"), (
        "the control: nothing was forgotten, so what is unknown is not a name"
    )


@pytest.mark.parametrize("at", [0, 249])
async def test_all_names_of_one_query_count(at: int) -> None:
    memory = QueryFields()
    await counts(memory, aliases(0, 250))
    assert await counts(memory, READ, f"w{at}")


@pytest.mark.parametrize("name", ["city", ""])
async def test_unknown_fields_are_doubtful_once_names_were_dropped(name: str) -> None:
    memory = QueryFields()
    await counts(memory, aliases(0, 150))
    assert not await counts(memory, READ, name), "the control"
    await counts(memory, aliases(150, 210))
    assert await counts(memory, READ, name)
    assert not await counts(memory, READ, name, server="other")
    assert not await counts(memory, READ, name, session="other")


async def test_a_computed_number_is_not_doubtful_after_that() -> None:
    memory = QueryFields()
    await counts(memory, aliases(0, 210))
    assert not await counts(memory, "SELECT count(*) AS n FROM w", "n")


@pytest.mark.parametrize("is_active", [True, False], ids=["active", "silent"])
async def test_names_count_after_a_thousand_other_sessions(is_active: bool) -> None:
    memory = QueryFields()
    await counts(memory, MADE)
    for at in range(1_001):
        if is_active and at % 100 == 0:
            await counts(memory, READ)
        await counts(memory, MADE, session=f"other {at}")
    assert await counts(memory, READ)
    assert await counts(memory, READ, "city") is not is_active, "a session that was active has lost nothing"
