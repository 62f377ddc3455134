"""`tool.map(items)` makes a call for each item and collects errors; `tool.pages(…)` gives the items of all pages.

The tools are those of `shop`, which notes the calls."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.lab import Lab
from tests.sandbox.shop import ITEMS, Shop
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
HEAD = "from servers.shop import *\nfrom servers.github import meet, echo\n"


@pytest.mark.parametrize("call", rows(TABLES["items"]))
async def test_items_are_arguments_by_name_by_position_or_alone(lab: Lab, call: str) -> None:
    expected = [{"owner": "a", "item_id": 1}, {"owner": "a", "item_id": 2}]
    assert await lab.value(f"{HEAD}{call}", Shop()) == expected
    assert await lab.value(f"{HEAD}import asyncio\nawait asyncio.sleep(0)\nx = await {call}\nx", Shop()) == expected


async def test_one_that_fails_leaves_none_and_its_error(lab: Lab) -> None:
    code = f"""
from codemode import ToolError
{HEAD}
found = get_item.map([1, -2, 4, {{"colour": 1}}], owner="a")
[[v and v["item_id"] for v in found], [v["item_id"] for v in found.ok], sorted(found.errors),
 isinstance(found.errors[1], ToolError), str(found.errors[1]), str(found.errors[3])]
"""
    *value, wrong = await lab.value(code, Shop())
    assert value == [[1, None, 4, None], [1, 4], [1, 3], True, "no item -2"]
    assert wrong.startswith("get_item() has no argument 'colour'")


@pytest.mark.parametrize(("items", "what"), rows(TABLES["no_lists"]))
async def test_what_is_no_list_of_items_is_refused_before_any_call(lab: Lab, items: str, what: str) -> None:
    """A text would be a call for each of its characters, a dict one for each of its keys."""
    expected = f"get_item.map() takes a list of items and makes a call for each, {what}"
    for style in (
        "get_item.map(items, owner='a')",
        "async def f(): return await get_item.map(items, owner='a')\nawait f()",
    ):
        tools = Shop()
        kind, message = await lab.error(f"{HEAD}items = {items}\n{style}", tools)
        assert (kind, message[: len(expected)]) == ("TypeError", expected)
        assert len(tools.calls) <= 1, "that of the items"
    unawaited = f"{HEAD}async def f(): return await get_item.map(get_item('a', 1), owner='a')\nawait f()"
    assert (await lab.error(unawaited, Shop()))[0] == "TypeError"


@pytest.mark.parametrize(("call", "message"), rows(TABLES["no_arguments"]))
async def test_items_that_are_no_arguments_of_the_tool_end_the_program_before_any_call(
    lab: Lab, call: str, message: str
) -> None:
    tools = Shop()
    kind, said = await lab.error(f"{HEAD}{call}", tools)
    assert (kind, message in said, tools.calls) == ("TypeError", True, [])


async def test_errors_that_the_program_never_looked_at_are_told(lab: Lab) -> None:
    """A list with None in it is easily summed up without a thought."""
    outcome = await lab.run(f"{HEAD}len(get_item.map([1, -2, -3], owner='a'))", Shop())
    assert "get_item.map(): 2 of 3 calls failed" in outcome.stderr
    assert "item 1: ToolError: no item -2" in outcome.stderr
    assert "result.errors has each error by its item's index" in outcome.stderr
    outcome = await lab.run(f"{HEAD}[v['item_id'] for v in get_item.map([1, -2], owner='a')]", Shop())
    assert "item 1: ToolError: no item -2" in outcome.stderr, "also where the None has broken the program"
    assert outcome.error is not None
    assert outcome.error.type == "TypeError"
    outcome = await lab.run(f"{HEAD}len(get_item.map([1, -2], owner='a').errors)", Shop())
    assert (outcome.value, outcome.stderr) == (1, "")


@pytest.mark.parametrize("style", ["plain", "async", "thread"])
async def test_calls_overlap_up_to_the_given_number(lab: Lab, style: str) -> None:
    """`meet` answers once three calls of it are here at the same time."""
    call = "meet.map([1, 2, 3, 4, 5, 6], company=3, concurrency=3)"
    code = {
        "plain": f"{call}",
        "async": f"import asyncio\nawait asyncio.sleep(0)\nx = {call}\nx",
        "thread": f"from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(lambda: {call}).result()",
    }
    tools = Shop()
    assert await lab.value(f"{HEAD}{code[style]}", tools) == [{"n": n} for n in range(1, 7)]
    assert tools.most_here == 3


async def test_what_no_item_could_change_is_raised_at_once(lab: Lab) -> None:
    tools = Shop()
    kind, message = await lab.error(f"{HEAD}forbidden.map(range(500), concurrency=2)", tools)
    assert (kind, "not permitted" in message) == ("ToolError", True)
    assert len(tools.calls) <= 4
    kind, message = await lab.error(f"{HEAD}get_item.map([1], ownr='a')", tools)
    assert (kind, "did you mean 'owner'" in message) == ("TypeError", True)


ALL = [item["id"] for item in ITEMS]
PAGES_HEAD = "from servers.shop import *\n"
WAYS: dict[str, tuple[str, list[dict[str, Any]]]] = TABLES["ways"]


@pytest.mark.parametrize("way", WAYS)
async def test_the_items_of_all_pages_come_in_order(lab: Lab, way: str) -> None:
    call, asked = WAYS[way]
    tools = Shop()
    assert await lab.value(f"{PAGES_HEAD}[item['id'] for item in {call}]", tools) == ALL
    assert tools.asked == asked


async def test_in_async_code_they_are_iterated_over_asynchronously_or_awaited_as_a_list(lab: Lab) -> None:
    code = f"""
{PAGES_HEAD}
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
    code = f"""{PAGES_HEAD}
first = [item["id"] for item in by_cursor.pages("x").first(3)]
for item in by_number.pages():
    break
none = list(by_offset.pages().first(0))
[first, item["id"], none]"""
    assert await lab.value(code, tools) == [[1, 2, 3], 1, []]
    assert len(tools.calls) == 2


async def test_whole_pages_are_given_on_request(lab: Lab) -> None:
    code = f"{PAGES_HEAD}[page['query'] for page in by_cursor.pages('q').by_page().first(2)]"
    assert await lab.value(code, Shop()) == ["q", "q"]
    assert len(await lab.value(f"{PAGES_HEAD}list(two_lists.pages().by_page())", Shop())) == 1


async def test_a_walk_starts_where_the_program_says(lab: Lab) -> None:
    code = f"{PAGES_HEAD}[[i['id'] for i in by_number.pages(page=2)], [i['id'] for i in by_offset.pages(start_at=5)]]"
    assert await lab.value(code, Shop()) == [ALL[3:], ALL[5:]]


async def test_pages_as_a_value_are_the_list_of_items(lab: Lab) -> None:
    assert await lab.value(f"{PAGES_HEAD}by_number.pages()", Shop()) == ITEMS
    assert await lab.value(f"{PAGES_HEAD}{{'all': by_number.pages()}}", Shop()) == {"all": ITEMS}


@pytest.mark.parametrize(("call", "kind", "message"), rows(TABLES["errors"]))
async def test_what_can_not_be_walked_is_an_error_that_says_why(lab: Lab, call: str, kind: str, message: str) -> None:
    """Never a list that is silently short."""
    assert (await lab.error(f"{PAGES_HEAD}list({call})", Shop()))[0] == kind
    assert message in (await lab.error(f"{PAGES_HEAD}list({call})", Shop()))[1]


@pytest.mark.parametrize(("call", "items", "page"), rows(TABLES["half_read"]))
async def test_what_was_read_before_a_walk_can_not_go_on_is_not_lost(
    lab: Lab, call: str, items: list[int], page: Any
) -> None:
    """Neither by a loop, which has been given it, nor by `list`, nor by an await."""
    code = f"""{PAGES_HEAD}
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
        error = await lab.failure(f"{PAGES_HEAD}list({call})", Shop())
        assert f".items of this error has the {len(items)} read" in error.traceback


async def test_a_walk_without_end_is_ended(lab: Lab) -> None:
    tools = Shop()
    _, message = await lab.error(f"{PAGES_HEAD}list(endless.pages())", tools, calls=2_000)
    assert "did not end after 1,000 pages" in message
    assert len(tools.calls) == 1_000
