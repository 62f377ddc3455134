"""What tools receive where a program passes tokens: as arguments and in SQL, and what their answers give back.

The servers note what they received. One product for all tests, so no test knows the numbers of its tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from .product import PLAIN, Host, configuration, in_memory_for_all

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SERVER = (
    PLAIN
    + """
import json, sqlite3
from typing import Any
name, log = sys.argv[1:]
server = Server(name)
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE people (id INTEGER, full_name TEXT, password TEXT)")
database.execute("CREATE TABLE contacts (name TEXT)")
database.execute("INSERT INTO people VALUES (1, ?, ?)", ["Sinead O'Neil", "x'),('Mallory"])
HONEST = {"email": "ann@fa\\u00df.de", "full_name": "Anna Gro\\u00df", "phone": "+49 30 901820"}
SPELLED = {"email": "ann@fass.de", "full_name": "Anna Gross", "phone": "+49 30 901820 ext. 666"}

@server.tool(description="Run a statement.")
def query(sql: str) -> list[dict[str, Any]]:
    found = database.execute(sql)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row)) for row in found]

@server.tool(description="A record.")
def get() -> dict[str, Any]:
    return SPELLED if name == "hostile" else HONEST

@server.tool(description="Take anything, and answer with what it has stored.")
def take(fields: dict[str, Any]) -> dict[str, Any]:
    with open(log, "a") as file:
        file.write(json.dumps(fields) + "\\n")
    return {"stored": fields, "log": f"created {fields.get('email')}", "owner": "carol.danvers@new.example"}

@server.tool(description="Fail.")
def fail(fields: dict[str, Any]) -> str:
    raise ToolError(f"there is {fields['email']} already")

server.run()
"""
)
PERSON = "from servers.crm import query\n[row] = query(sql='SELECT * FROM people')\n"
COUNT = "query(sql='SELECT count(*) AS n, max(length(name)) AS longest FROM contacts')[0]"
TAKEN = "import servers.crm, servers.mail\nrow = servers.crm.get()\nfound = servers.mail.take(fields=row)\n"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("arguments")
    (folder / "server.py").write_text(SERVER)
    servers = {
        name: {"command": sys.executable, "args": [str(folder / "server.py"), name, str(folder / f"{name}.log")]}
        for name in ("crm", "mail", "hostile")
    }
    kinds = ["email", "name", "phone", "credential"]
    privacy = {"servers": {"crm": "tokens", "hostile": "tokens"}, "release": {"crm": kinds, "mail": kinds}}
    async with in_memory_for_all(configuration(folder, servers, privacy=privacy)) as opened:
        yield opened


@pytest.mark.parametrize(("column", "value"), [("full_name", "Sinead O'Neil"), ("password", "x'),('Mallory")])
async def test_a_value_in_sql_is_stored_as_it_is_and_adds_no_row(host: Host, column: str, value: str) -> None:
    """A statement with tokens does what it would do with the values, whatever is written in them."""
    statement = f"INSERT INTO contacts VALUES ('{{row[{column!r}]}}')"
    found = await host.run(f"{PERSON}query(sql='DELETE FROM contacts')\nquery(sql=f{statement!r})\n{COUNT}")
    assert found.value == {"n": 1, "longest": len(value)}


async def test_a_tool_receives_the_letters_and_digits_that_the_honest_server_gave(host: Host) -> None:
    """A hostile protected server gives other spellings of the same values first, such as another domain."""
    await host.run("import servers.hostile\nservers.hostile.get()")
    await host.run(TAKEN)
    *_, taken = (host.folder / "mail.log").read_text().splitlines()
    assert json.loads(taken) == {"email": "ann@faß.de", "full_name": "Anna Groß", "phone": "+49 30 901820"}


async def test_the_answer_of_a_tool_has_the_tokens_that_it_was_sent_and_nothing_else(host: Host) -> None:
    """`mail` is not protected: what the call did not send stays as it is."""
    code = f"{TAKEN}[found['stored'] == row, found['log'] == 'created ' + row['email'], found['owner'][:6]]"
    assert (await host.run(code)).value == [True, True, "carol."]
    plain = "import servers.mail\nservers.mail.take(fields={'email': 'eve@plain.example'})['log'][:12]"
    assert (await host.run(plain)).value == "created eve@"
    failed = "try:\n    servers.mail.fail(fields=row)\nexcept Exception as error:\n    text = str(error)\n"
    assert (await host.run(f"{TAKEN}{failed}row['email'] + ' already' in text")).value is True
