"""Tokens in SQL, on a real database: a statement with tokens does what it would do with the values, no more."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .product import PLAIN, Host, configuration, in_memory

pytestmark = pytest.mark.slow

SERVER = (
    PLAIN
    + """
import sqlite3
from typing import Any

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE people (id INTEGER, full_name TEXT, password TEXT)")
database.execute("CREATE TABLE contacts (name TEXT)")
database.execute("INSERT INTO people VALUES (1, ?, ?)", ["Sinead O'Neil", "x'),('Mallory"])
server = Server("crm")

@server.tool(description="Run a statement.")
def query(sql: str) -> list[dict[str, Any]]:
    found = database.execute(sql)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row)) for row in found]

@server.tool(description="Run a command.")
def run(command: str) -> list[dict[str, Any]]:
    return query(command)

server.run()
"""
)
PERSON = "from servers.crm import query\n[row] = query(sql='SELECT * FROM people')\n"
COUNT = "query(sql='SELECT count(*) AS n, max(length(name)) AS longest FROM contacts')[0]"


def crm(folder: Path) -> Path:
    script = folder / "crm.py"
    script.write_text(SERVER)
    privacy = {"servers": {"crm": "tokens"}, "release": {"crm": ["name", "credential"]}}
    return configuration(folder, {"crm": {"command": sys.executable, "args": [str(script)]}}, privacy=privacy)


async def stored(host: Host, statement: str) -> object:
    """How many contacts there are after a statement, and how long the longest name is."""
    return (await host.run(f"{PERSON}query(sql=f{statement!r})\n{COUNT}")).value


async def test_a_name_with_an_apostrophe_is_stored_as_it_is(tmp_path: Path) -> None:
    async with in_memory(crm(tmp_path)) as host:
        assert (await host.run(PERSON + "row")).value["full_name"] == "<NAME_1>", "the program sees no apostrophe"
        found = await stored(host, "INSERT INTO contacts VALUES ('{row['full_name']}')")
        assert found == {"n": 1, "longest": len("Sinead O'Neil")}


async def test_a_value_that_is_written_as_sql_adds_no_row(tmp_path: Path) -> None:
    async with in_memory(crm(tmp_path)) as host:
        found = await stored(host, "INSERT INTO contacts VALUES ('{row['password']}')")
        assert found == {"n": 1, "longest": len("x'),('Mallory")}


async def test_without_quotation_marks_the_call_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with in_memory(crm(tmp_path)) as host:
        refused = await host.run(f"{PERSON}query(sql=f\"INSERT INTO contacts VALUES ({{row['full_name']}})\")")
        assert "without quotation marks around it; write '<NAME_1>'" in refused.text
        assert "Do not try again" not in refused.text
        assert "Neil" not in refused.text
        assert (await host.run("from servers.crm import query\n" + COUNT)).value["n"] == 0


async def test_in_an_argument_with_another_name_a_statement_is_escaped_too(tmp_path: Path) -> None:
    """The password has an apostrophe, so the statement would be none without the escape."""
    statement = "SELECT p.* FROM people p WHERE lower(p.password) = lower('{row['password']}')"
    async with in_memory(crm(tmp_path)) as host:
        found = await host.run(f"{PERSON}from servers.crm import run\nlen(run(command=f{statement!r}))")
        assert found.value == 1, found.text
