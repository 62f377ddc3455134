"""What the queries of a session have named counts in its later results, also where there are many names or sessions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codemode_server.gateway.query_names import QueryNames
from codemode_server.privacy.renamed_fields import RenamedFields

MADE = "CREATE TABLE w AS SELECT name AS who FROM persons"
READ = "SELECT * FROM w"


def aliases(begin: int, end: int) -> str:
    return f"SELECT {', '.join(f'name AS w{at}' for at in range(begin, end))} FROM persons"


def call_of(session: str = "mine", server: str = "db") -> tuple[Any, Any]:
    calls = SimpleNamespace(context=SimpleNamespace(session=SimpleNamespace(session_id=session)))
    return calls, SimpleNamespace(server=SimpleNamespace(raw_name=server))


def is_personal(fields: RenamedFields, name: str = "who") -> bool:
    """Whether the values of a field count as names of persons, whatever they look like."""
    renamed = fields.of(name)
    return renamed is not None and "name" in renamed.names and renamed.is_of_person is True


async def counts(memory: QueryNames, sql: str, name: str = "who", *, session: str = "mine", server: str = "db") -> bool:
    """Whether the values of a field in the answer to a query count as names of persons."""
    return is_personal(await memory.of(*call_of(session, server), {"sql": sql}), name)


@pytest.mark.parametrize(
    ("others", "is_known"),
    [([], False), ([MADE], True), ([MADE, aliases(0, 200)], True), ([aliases(0, 150), MADE, aliases(150, 210)], True)],
    ids=["nothing named", "named once", "200 newer names", "named between others"],
)
async def test_a_name_counts_whatever_was_named_since(others: list[str], is_known: bool) -> None:
    memory = QueryNames()
    for sql in others:
        await counts(memory, sql)
    assert await counts(memory, READ) is is_known


async def test_a_name_that_is_sent_again_is_the_newest() -> None:
    memory = QueryNames()
    for sql in (MADE, aliases(0, 150), MADE, aliases(150, 199)):
        await counts(memory, sql)
    assert await counts(memory, READ)
    assert not await counts(memory, READ, "city"), (
        "the control: nothing was forgotten, so what is unknown is not a name"
    )


@pytest.mark.parametrize("at", [0, 249])
async def test_all_names_of_one_query_count(at: int) -> None:
    memory = QueryNames()
    await counts(memory, aliases(0, 250))
    assert await counts(memory, READ, f"w{at}")


@pytest.mark.parametrize("name", ["city", ""])
async def test_unknown_fields_are_doubtful_once_names_were_dropped(name: str) -> None:
    memory = QueryNames()
    await counts(memory, aliases(0, 150))
    assert not await counts(memory, READ, name), "the control"
    await counts(memory, aliases(150, 210))
    assert await counts(memory, READ, name)
    assert not await counts(memory, READ, name, server="other")
    assert not await counts(memory, READ, name, session="other")


async def test_a_computed_number_is_not_doubtful_after_that() -> None:
    memory = QueryNames()
    await counts(memory, aliases(0, 210))
    assert not await counts(memory, "SELECT count(*) AS n FROM w", "n")


@pytest.mark.parametrize("is_active", [True, False], ids=["active", "silent"])
async def test_names_count_after_a_thousand_other_sessions(is_active: bool) -> None:
    memory = QueryNames()
    await counts(memory, MADE)
    for at in range(1_001):
        if is_active and at % 100 == 0:
            await counts(memory, READ)
        await counts(memory, MADE, session=f"other {at}")
    assert await counts(memory, READ)
    assert await counts(memory, READ, "city") is not is_active, "a session that was active has lost nothing"


class TestACallThatWasSent:
    @pytest.mark.parametrize("is_sent", [True, False])
    async def test_names_fields_without_an_answer(self, is_sent: bool) -> None:
        memory = QueryNames()
        if is_sent:
            await memory.note(*call_of(), {"sql": MADE})
        assert await counts(memory, READ) is is_sent

    async def test_names_fields_of_a_call_that_was_sent_before_it(self) -> None:
        memory, read = QueryNames(), {"sql": READ}
        await memory.note(*call_of(), read)
        await memory.note(*call_of(), {"sql": MADE})
        assert is_personal(await memory.of(*call_of(), read))
        assert not await counts(memory, READ, "city"), "the control"

    @pytest.mark.parametrize("others", [0, 100])
    async def test_knows_its_own_names_when_the_answer_comes(self, others: int) -> None:
        memory, sent = QueryNames(), {"sql": "SELECT name AS who FROM persons"}
        await memory.note(*call_of(), sent)
        for _ in range(others):
            await memory.note(*call_of(session="other"), {"sql": READ})
        fields = await memory.of(*call_of(), sent)
        assert is_personal(fields)
        assert not is_personal(fields, "city")

    async def test_that_is_doubtful_is_so_when_the_answer_comes(self) -> None:
        memory, sent = QueryNames(), {"sql": "SELECT '\\' AS a, name AS b, '' AS c FROM people"}
        await memory.note(*call_of(), sent)
        await memory.note(*call_of(), {"sql": MADE})
        assert is_personal(await memory.of(*call_of(), sent), "anything")
