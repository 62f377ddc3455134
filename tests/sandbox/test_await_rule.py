"""The rule for awaited and unawaited calls, by itself: what a call gives at its place in a program's text."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from codemode_server.sandbox.guest.await_rule import CallUses, Use
from tests.tables import rows, tables
from tests.work import lines_run

TABLES = tables(__file__)

IMPORTS = "import asyncio\nfrom servers.github import echo\n"


def use_of_first_call(code: str) -> Use:
    tree = ast.parse(IMPORTS + code)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "echo"]
    return CallUses(tree).use_of(calls[0])


USES = {"value": Use.VALUE, "awaited": Use.AWAITED, "either": Use.EITHER, "handed over": Use.HANDED_OVER}
"""Where the value is used; where the program awaits it later; where the use is not to be seen; for a function that the
text does not show, which decides when it is called."""


@pytest.mark.parametrize(("use", "code"), [(use, code) for use in USES for code in TABLES[use]])
def test_a_call_gives_what_its_place_asks_for(use: str, code: str) -> None:
    assert use_of_first_call(code) is USES[use]


@pytest.mark.parametrize("code", rows(TABLES["held"]))
def test_a_call_for_a_function_that_awaits_it_is_held(code: str) -> None:
    tree = ast.parse(IMPORTS + code)
    uses = CallUses(tree)
    assert [uses.is_held(call) for call in uses.calls() if ast.unparse(call.func) == "echo"] == [True]


SLOW: dict[str, Callable[[int], str]] = {
    "a chain of names": lambda size: "".join(f"    a{n + 1} = a{n}\n" for n in range(size)),
    "names in circles": lambda size: "".join(f"    a0 = a{n} = echo(a0)\n    a0 = a{n}\n" for n in range(size)),
    "many names into many": lambda size: (
        "    for " + ", ".join(f"a{n}" for n in range(size)) + " in [" + "a0, echo(), " * size + "]: pass\n"
    ),
}


def work_for(body: str) -> int:
    """Number of lines of Python that the rule runs for a whole program."""
    tree = ast.parse(IMPORTS + "async def f():\n    a0 = echo()\n" + body)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def uses() -> None:
        rule = CallUses(tree)
        for call in calls:
            rule.use_of(call)

    return lines_run(uses)


@pytest.mark.parametrize("kind", SLOW)
def test_the_work_for_a_program_made_to_be_slow_grows_with_its_size_only(kind: str) -> None:
    once, twice = work_for(SLOW[kind](150)), work_for(SLOW[kind](300))
    assert twice < 2.2 * once, "quadratic work would be four times as much"
