"""Threat: a model writes a query that gives the columns of a protected server other names, so that no field in the
result says that its values are names, birth dates or passwords.

Rule: what the query says of a column counts as the name of the field. Some queries get values out all the same: they
are here too, so that the list in the security guide is true. No value begins with a given name, which is evidence of
its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.behaviour.product import PLAIN, Host, configuration, in_memory, in_memory_for_all

NAMES, DATES = ("Xqaru Zedvik", "Oblix Ferrun"), ("1987-03-14", "1990-12-01")
PASSWORD = "k7#Lmpq2!x"
SERVER = (
    PLAIN
    + f"""
import sqlite3
import threading
from typing import Any

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE people (id INTEGER, name TEXT, born TEXT, city TEXT, password TEXT, data TEXT)")
database.execute("CREATE TABLE products (id INTEGER, name TEXT, buyer INTEGER)")
for at, (name, born) in enumerate(zip({NAMES!r}, {DATES!r})):
    row = [at, name, born, "Lisbon", {PASSWORD!r}, '{{"name": "%s"}}' % name]
    database.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", row)
    database.execute("INSERT INTO products VALUES (?, ?, ?)", [at, "Desk Lamp", at])
server = Server("hr")
made, was_read = threading.Event(), threading.Event()

def read(sql: str) -> tuple[list[str], list[list[Any]]]:
    found = database.execute(sql)
    return [column[0] for column in found.description or ()], [list(row) for row in found]

@server.tool(description="Run a query.")
def query(sql: str) -> list[dict[str, Any]]:
    names, rows = read(sql)
    return [dict(zip(names, row)) for row in rows]

@server.tool(description="Run a query, and answer after `release`.")
def hold(call: Call, sql: str) -> str:
    read(sql)
    made.set()
    was_read.wait()
    return "done"

@server.tool(description="Read the table that `hold` makes.")
def read_made(call: Call) -> list[dict[str, Any]]:
    made.wait()
    names, rows = read("SELECT * FROM w")
    return [dict(zip(names, row)) for row in rows]

@server.tool(description="Let `hold` answer.")
def release() -> str:
    was_read.set()
    return "done"

@server.tool(description="Run a query; the rows are lists.")
def rows(sql: str) -> list[list[Any]]:
    return read(sql)[1]

@server.tool(description="Run a query; the answer is CSV.")
def csv(sql: str) -> str:
    names, rows = read(sql)
    return "".join(",".join(map(str, row)) + "\\n" for row in (names, *rows))

@server.tool(description="Run a query of GraphQL, of one field `who`.")
def graph(query: str) -> dict[str, Any]:
    return {{"data": {{"people": [{{"who": row[0]}} for row in read("SELECT name FROM people")[1]]}}}}

@server.tool(description="Filter the people by JMESPath.")
def search(expression: str) -> list[dict[str, str]]:
    return [dict(zip(("who", "day"), row)) for row in read("SELECT name, born FROM people")[1]]

server.run()
"""
)
CAUGHT = {
    "an alias": "query(sql='SELECT name AS who, born AS d FROM people')",
    "an alias without AS": "query(sql='SELECT name who, born d FROM people')",
    "an alias and no other column": "query(sql='SELECT name AS who FROM people')",
    "an alias in quotation marks": "query(sql='SELECT name AS \"the one\", born AS [a day] FROM people')",
    "capitals": "query(sql='SELECT upper(name) AS n, born AS d FROM people')",
    "a text around it": "query(sql=\"SELECT '<' || name || '>' AS x FROM people\")",
    "the form of a token": (
        "query(sql=\"SELECT '<' || upper(replace(name, ' ', '_')) || '_1>' AS x, "
        "'<D_' || replace(born, '-', '') || '_1>' AS y FROM people\")"
    ),
    "the form of a token of names": (
        "query(sql=\"SELECT '<NAME_' || replace(born, '-', '') || '>' AS y FROM people\")"
    ),
    "its halves": "query(sql='SELECT substr(name, 1, 6) AS a, substr(name, 7) AS b FROM people')",
    "hexadecimal": "query(sql='SELECT hex(name) AS x FROM people')",
    "no alias": "query(sql='SELECT max(name), min(born) FROM people')",
    "all in one text": "query(sql=\"SELECT group_concat(name, ';') AS x FROM people\")",
    "a subquery": "query(sql='SELECT a, b FROM (SELECT name AS a, born AS b FROM people)')",
    "a subquery as a column": "query(sql='SELECT (SELECT name FROM people WHERE id = p.buyer) AS x FROM products p')",
    "a named subquery": "query(sql='WITH t(a, b) AS (SELECT name, born FROM people) SELECT a AS x, b FROM t')",
    "a union": "query(sql=\"SELECT '' AS a, '' AS b UNION ALL SELECT name, born FROM people\")",
    "a union with all columns": "query(sql=\"SELECT 1 AS a, '' AS b, '' AS c, '' AS d, '' AS e, '' AS f UNION ALL "
    'SELECT * FROM people")',
    "a part of JSON": "query(sql=\"SELECT json_extract(data, '$.name') AS x FROM people\")",
    "an operator of JSON": "query(sql=\"SELECT data->>'name' AS x FROM people\")",
    "a join": "query(sql='SELECT h.name AS x FROM products p JOIN people h ON h.id = p.buyer')",
    "a password": "query(sql='SELECT password AS p FROM people')",
    "rows without names": "rows(sql='SELECT name AS a, born AS b FROM people')",
    "a table": "csv(sql='SELECT name AS a, born AS b FROM people')",
    "a table of one column": "csv(sql='SELECT name AS a FROM people')",
    "GraphQL": "graph(query='query { people(first: 9) { who: name } }')",
    "JMESPath": "search(expression='[*].{who: name, day: born}')",
    "a table that an earlier call made": (
        "query(sql='CREATE TABLE w AS SELECT name AS e, born AS f FROM people')\nquery(sql='SELECT * FROM w')"
    ),
    "strings that databases end in different places": "query(sql=\"SELECT '\\\\' AS a, name AS who, born AS d, '' AS b "
    'FROM people")',
}
THROUGH = {
    "codes of letters": "query(sql='SELECT unicode(substr(name, 1, 1)) AS a FROM people')[0]['a'] == 88",
    "lengths": "query(sql='SELECT length(name) AS a FROM people')[0]['a'] == 12",
    "parts of a date": "query(sql='SELECT substr(born, 6) AS d FROM people')[0]['d'] == '03-14'",
    "conditions": "query(sql=\"SELECT CASE WHEN name LIKE 'X%' THEN 'yes' END AS a FROM people\")[0]['a'] == 'yes'",
    "a table made by a query that is not read with certainty": (
        "query(sql=\"CREATE TABLE v AS SELECT '\\\\' AS a, name AS hidden, '' AS b FROM people\")\n"
        "query(sql='SELECT hidden FROM v')[0]['hidden'].endswith('Zedvik')"
    ),
}
ORDINARY = {
    "products beside customers": (
        "query(sql='SELECT p.name AS product, h.name AS buyer FROM products p JOIN people h ON h.id = p.buyer')",
        "Desk Lamp",
    ),
    "another column under another name": ("query(sql='SELECT name AS who, city AS place FROM people')", "Lisbon"),
    "names in a condition": ("query(sql='SELECT city AS place FROM people WHERE name IS NOT NULL')", "Lisbon"),
    "a list of columns": ("query(sql=\"SELECT name AS col FROM pragma_table_info('people')\")", "password"),
    "counts by year": ("query(sql=\"SELECT strftime('%Y', born) AS y, count(*) AS n FROM people GROUP BY 1\")", "1987"),
}
READ = "from servers.hr import csv, graph, query, rows, search\n"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Host]]:
    """A product that protects the server, and one that does not."""
    folders = [tmp_path_factory.mktemp(name) for name in ("tokens", "values")]
    async with (
        in_memory_for_all(product(folders[0], "tokens")) as protected,
        in_memory_for_all(product(folders[1], "values")) as open_to_all,
    ):
        yield {"tokens": protected, "values": open_to_all}


def product(folder: Path, mode: str, **server: str) -> Path:
    (folder / "hr.py").write_text(SERVER)
    servers = {"hr": {"command": sys.executable, "args": [str(folder / "hr.py")], **server}}
    return configuration(folder, servers, privacy={"servers": {"hr": mode}})


def has_value(text: str) -> bool:
    """Whether something of a person is in a text, in any case, as hexadecimal digits or as the digits of a date."""
    words = {word for name in NAMES for word in name.split()}
    hidden = {word.encode().hex() for word in words}
    dates = {*DATES, *(date.replace("-", "") for date in DATES)}
    return any(it.casefold() in text.casefold() for it in (*words, *hidden, *dates, PASSWORD))


@pytest.mark.evasion
@pytest.mark.parametrize("name", CAUGHT)
async def test_a_renamed_column_reaches_no_program_in_clear(hosts: dict[str, Host], name: str) -> None:
    """The control is the product that does not protect the server: there the same query shows values."""
    answer = await hosts["tokens"].run(READ + CAUGHT[name])
    assert re.search(r"<(NAME|BIRTH_DATE|CREDENTIAL)_\d+>", str(answer.value))
    assert not has_value(answer.text)
    assert has_value((await hosts["values"].run(READ + CAUGHT[name])).text), "the control"


@pytest.mark.evasion
@pytest.mark.parametrize("name", THROUGH)
async def test_other_queries_get_it_through_as_the_guide_says(hosts: dict[str, Host], name: str) -> None:
    assert (await hosts["tokens"].run(READ + THROUGH[name])).value is True


@pytest.mark.parametrize("name", ORDINARY)
async def test_what_is_no_personal_data_stays_under_another_name_too(tmp_path: Path, name: str) -> None:
    """In a product of its own: what was once taken for a name has a token in later answers too."""
    code, stays = ORDINARY[name]
    async with in_memory(product(tmp_path, "tokens")) as host:
        assert stays in (await host.run(READ + code)).text


@pytest.mark.parametrize(("column", "is_shown"), [("name", False), ("city", True)])
@pytest.mark.slow
async def test_a_table_is_read_while_the_call_that_made_it_still_runs(
    tmp_path: Path, column: str, is_shown: bool
) -> None:
    """In a product of its own, in which no name is known yet."""
    code = (
        "import asyncio\nfrom servers.hr import hold, read_made, release\n"
        "async def read():\n    rows = await read_made()\n    await release()\n    return rows\n"
        f"held = hold(sql='CREATE TABLE w AS SELECT {column} AS e FROM people')\n"
        "(await asyncio.gather(held, read()))[1]"
    )
    async with in_memory(product(tmp_path, "tokens")) as host:
        answer = await host.run(code)
    assert ("Lisbon" in answer.text) is is_shown
    assert ("<NAME_1>" in answer.text) is not is_shown


async def test_an_answer_to_a_doubtful_query_is_still_a_block_of_text(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path, "tokens", expose="direct")) as host:
        answer = await host.call("hr__query", sql="SELECT '#' || name AS x FROM people")
    assert "<NAME_1>" in answer.text
    assert '"type"' not in answer.text


async def test_the_guide_has_the_count() -> None:
    guide = " ".join(GUIDE.read_text().split())
    counted = re.search(r"Of (\d+) queries that rename or change columns \(.*?\), (\d+) get something", guide)
    assert counted is not None
    assert [int(it) for it in counted.groups()] == [len(CAUGHT) + len(THROUGH), len(THROUGH)]
