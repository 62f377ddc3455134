"""What a query calls a column is read on published servers of databases: the program has tokens for names under any
name, and the database has the names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scripts.real_servers import commands
from tests.behaviour.product import configuration, in_memory

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300), pytest.mark.usefixtures("real_servers")]

QUERIES = (
    "SELECT name AS who, born AS d, city AS place FROM people ORDER BY id",
    "SELECT a AS who, b d, place FROM (SELECT upper(name) AS a, born AS b, city AS place FROM people ORDER BY id)",
)
PROGRAM = "from servers.sqlite import read_query\nread_query(query={!r})"


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("mode", ["tokens", "values"])
async def test_a_name_under_an_alias_is_a_token(tmp_path: Path, query: str, mode: str) -> None:
    """The control is the server that is not protected. The city stays."""
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        database.execute("CREATE TABLE people (id INTEGER, name TEXT, born TEXT, city TEXT)")
        database.execute("INSERT INTO people VALUES (1, 'Xqaru Zedvik', '1987-03-14', 'Lisbon')")
        database.commit()
    command, *arguments = commands(["sqlite"])["sqlite"]
    server = {"command": command, "args": [*arguments, "--db-path", str(tmp_path / "people.db")]}
    async with in_memory(configuration(tmp_path, {"sqlite": server}, privacy={"servers": {"sqlite": mode}})) as host:
        [row] = (await host.run(PROGRAM.format(query))).value
    if mode == "tokens":
        assert row == {"who": "<NAME_1>", "d": "<BIRTH_DATE_1>", "place": "Lisbon"}
    else:
        assert (row["who"].casefold(), row["d"]) == ("xqaru zedvik", "1987-03-14")
