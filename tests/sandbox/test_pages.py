"""`tool.pages(…)`: all items of a tool that gives them page by page, whatever words its service has for it.

Driven through programs in a sandbox; the tools' side is `shop`. Each kind of paging is checked by what was asked for,
too: no page twice, none that is not needed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.lab import Lab
from tests.sandbox.shop import ITEMS, Shop
from tests.tables import rows, tables

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
TABLES = tables(__file__)
ALL = [item["id"] for item in ITEMS]
HEAD = "from servers.shop import *\n"

WAYS: dict[str, tuple[str, list[dict[str, Any]]]] = TABLES["ways"]


@pytest.mark.parametrize("way", WAYS)
async def test_the_items_of_all_pages_come_in_order(lab: Lab, way: str) -> None:
    call, asked = WAYS[way]
    tools = Shop()
    assert await lab.value(f"{HEAD}[item['id'] for item in {call}]", tools) == ALL
    assert tools.asked == asked


async def test_in_async_code_they_are_iterated_over_asynchronously_or_awaited_as_a_list(lab: Lab) -> None:
    code = f"""
{HEAD}
async def main():
    found = [item["id"] async for item in by_cursor.pages(query="x")]
    async for item in by_number.pages():
        found.append(item["id"])
    return [found, len(await by_offset.pages()), [i["id"] for i in by_graph.pages()], sum(1 for i in by_index.pages())]
await main()
"""
    assert await lab.value(code, Shop()) == [ALL + ALL, 7, ALL, 7]


async def test_no_page_is_asked_for_that_is_not_needed(lab: Lab) -> None:
    tools = Shop()
    code = f"""{HEAD}
first = [item["id"] for item in by_cursor.pages("x").first(3)]
for item in by_number.pages():
    break
none = list(by_offset.pages().first(0))
[first, item["id"], none]"""
    assert await lab.value(code, tools) == [[1, 2, 3], 1, []]
    assert len(tools.calls) == 2


async def test_whole_pages_are_given_on_request(lab: Lab) -> None:
    code = f"{HEAD}[page['query'] for page in by_cursor.pages('q').by_page().first(2)]"
    assert await lab.value(code, Shop()) == ["q", "q"]
    assert len(await lab.value(f"{HEAD}list(two_lists.pages().by_page())", Shop())) == 1


async def test_a_walk_starts_where_the_program_says(lab: Lab) -> None:
    code = f"{HEAD}[[i['id'] for i in by_number.pages(page=2)], [i['id'] for i in by_offset.pages(start_at=5)]]"
    assert await lab.value(code, Shop()) == [ALL[3:], ALL[5:]]


async def test_pages_as_a_value_are_the_list_of_items(lab: Lab) -> None:
    assert await lab.value(f"{HEAD}by_number.pages()", Shop()) == ITEMS
    assert await lab.value(f"{HEAD}{{'all': by_number.pages()}}", Shop()) == {"all": ITEMS}


@pytest.mark.parametrize(("call", "kind", "message"), rows(TABLES["errors"]))
async def test_what_can_not_be_walked_is_an_error_that_says_why(lab: Lab, call: str, kind: str, message: str) -> None:
    """Never a list that is silently short."""
    assert (await lab.error(f"{HEAD}list({call})", Shop()))[0] == kind
    assert message in (await lab.error(f"{HEAD}list({call})", Shop()))[1]


@pytest.mark.parametrize(("call", "items", "page"), rows(TABLES["half_read"]))
async def test_what_was_read_before_a_walk_can_not_go_on_is_not_lost(
    lab: Lab, call: str, items: list[int], page: Any
) -> None:
    """Neither by a loop, which has been given it, nor by `list`, nor by an await."""
    code = f"""{HEAD}
looped, errors = [], []
try:
    for item in {call}: looped.append(item)
except ToolError as error: errors.append(error)
try: list({call})
except ToolError as error: errors.append(error)
async def main():
    try: await {call}
    except ToolError as error: errors.append(error)
await main()
[[item["id"] for item in looped], [[item["id"] for item in e.items] for e in errors], [e.page for e in errors]]"""
    assert await lab.value(code, Shop()) == [items, [items] * 3, [page] * 3]
    if items:
        outcome = await lab.run(f"{HEAD}list({call})", Shop())
        assert outcome.error is not None
        assert f".items of this error has the {len(items)} read" in outcome.error.traceback


async def test_a_walk_without_end_is_ended(lab: Lab) -> None:
    tools = Shop()
    _, message = await lab.error(f"{HEAD}list(endless.pages())", tools, calls=2_000)
    assert "did not end after 1,000 pages" in message
    assert len(tools.calls) == 1_000
