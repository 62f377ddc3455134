"""A team's everyday tools come first among equals, also after a restart; only calls that succeeded count.

The whole product with real upstreams and a real sandbox; what is on disk is read as a person would.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import small_upstream

from .product import PLAIN, Host, configuration, in_memory, over_stdio

pytestmark = pytest.mark.slow

UPSTREAM = '''
server = Server(sys.argv[1])

@server.tool()
def list_tickets(state: str = "open") -> list[str]:
    """The tickets of the team."""
    if state == "broken":
        raise ValueError("no such state")
    return []

server.run()
'''
QUERY = "confidential words of a query: list the tickets"


def desks(folder: Path, habits: bool = True, **sections: Any) -> Path:
    """Two upstreams alike. They are ranked by words, by which equals are equal; a model reads their names as well."""
    place = folder / "desk.py"
    place.write_text(PLAIN + UPSTREAM)
    servers = {name: small_upstream(place, name) for name in ("alpha", "beta")}
    return configuration(folder, servers, search={"ranker": "lexical", "habits": habits}, **sections)


async def first(host: Host) -> str:
    """The server whose tool comes first."""
    found = await host.call("search_tools", query=QUERY, detail_level="name_only")
    return str(found.content["tools"][0]["server"])


def uses(folder: Path) -> dict[str, float]:
    with closing(sqlite3.connect(folder / "state" / "codemode.db")) as connection:
        return {
            f"{server}.{tool}": times
            for server, tool, times in connection.execute("SELECT server, tool, uses FROM habits")
        }


CALL = "from servers.beta import list_tickets\nlist_tickets({})"


async def test_the_everyday_tool_comes_first_also_after_a_restart(tmp_path: Path) -> None:
    path = desks(tmp_path)
    async with over_stdio(path) as host:
        assert await first(host) == "alpha", "control"
        for _ in range(3):
            assert (await host.run(CALL.format(""))).value == []
        assert await first(host) == "beta"
    async with over_stdio(path) as host:
        assert await first(host) == "beta"


async def test_no_word_of_a_query_is_on_disk(tmp_path: Path) -> None:
    async with in_memory(desks(tmp_path)) as host:
        await first(host)
        await host.run(CALL.format(""))
    content = b"".join(file.read_bytes() for file in (tmp_path / "state").glob("codemode.db*"))
    assert b"list_tickets" in content, "control"
    assert b"confidential" not in content


async def test_search_habits_false_keeps_nothing_and_changes_no_order(tmp_path: Path) -> None:
    async with in_memory(desks(tmp_path, habits=False)) as host:
        await first(host)
        for _ in range(3):
            await host.run(CALL.format(""))
        assert await first(host) == "alpha"
    assert uses(tmp_path) == {}
