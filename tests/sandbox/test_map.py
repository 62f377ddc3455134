"""`tool.map(items)`: a call for each item, some at a time, results in the order of the items, errors collected."""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

import pytest

from tests.sandbox.lab import Lab
from tests.sandbox.shop import Shop
from tests.tables import rows, tables

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
TABLES = tables(__file__)
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
