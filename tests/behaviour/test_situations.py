"""One program in one configuration: what the model gets, what reaches the server and what is recorded.

A table of situations over the whole way of a call, seen from outside alone (the host's answer, the log of a real
server, `executions show --json`), so that it holds whatever the way looks like inside.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import pytest_asyncio

from codemode_server.cli import run
from tests import fork_server

from .person import Person
from .product import UPSTREAMS, Host, configuration, for_all, in_memory
from .test_approvals import NO, ONCE, PROGRAM

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SECRET = "correct-horse-battery"
PLAIN: dict[str, Any] = {}
CAREFUL = {"permissions": {"preset": "careful"}}
READ_ONLY = {"permissions": {"preset": "read-only"}}
RULES = {
    "permissions": {
        "rules": [
            {"deny": "shop/remove", "reason": "nothing is removed"},
            {"deny": "shop/order", "when": "args.amount > 10", "reason": "ten at most"},
            {"allow": "shop/price", "limit": "2/execution"},
            {"ask": "shop/pay"},
        ]
    }
}
ONE_CALL = {"limits": {"calls": 1}}
SIZES = {"guardrails": [{"use": "size", "settings": {"result_bytes": 40}}]}
NO_VALUES = {"state": {"payloads": "none"}}
ENDING = {"limits": {"calls": 9}}
"""A server of its own, which another situation would find ended."""
PRIVATE = {"privacy": {"servers": {"shop": "tokens"}}}
EMAIL = "ann.lee@example.org"
IMPORT = "from codemode import ToolError\nfrom servers.shop import *\n"
CATCH = "try:\n    {}\nexcept ToolError as error:\n    print(error.kind, error)\n"
GATHER = "import asyncio\nlen(await asyncio.gather({}))"
SAID, SIMULATED, NOT_APPROVED = "say allow succeeded", "order simulate simulated", "order ask refused"


@dataclass(frozen=True)
class Situation:
    name: str
    settings: dict[str, Any]
    program: str
    answer: str
    """A part of the text that the model gets."""
    reached: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    """`tool decision status` of each call."""
    answers: tuple[str, ...] = ()
    """Of the person, to the questions that come; without any the host has no forms."""
    dry_run: bool = False


S = Situation
PRICE, ORDER = 'price ["a"]', 'order ["a", 1]'
PRICED, ORDERED, REFUSED = "price allow succeeded", "order allow succeeded", "order deny refused"
REMOVED, MAILED = "remove deny refused", f'say ["{EMAIL}"]'
MANY = "order('a', len and ['many'][len('')])"
"""Of the wrong type, which shows at run time alone."""
SITUATIONS = [
    S("no call", PLAIN, "1 + 1", "2"),
    S("a reading call", PLAIN, "price('a')['price']", "7", (PRICE,), (PRICED,)),
    S("a writing call", PLAIN, "order('a')['amount']", "1", (ORDER,), (ORDERED,)),
    S("a destroying call", PLAIN, "remove('a')", "a is gone", ('remove ["a"]',), ("remove allow succeeded",)),
    S("calls in order", PLAIN, "order('a')\nprice('a')['price']", "7", (ORDER, PRICE), (ORDERED, PRICED)),
    S("a dict of arguments", PLAIN, "order({'item': 'a', 'amount': 2})", "2", ('order ["a", 2]',), (ORDERED,)),
    S("an equal call twice", PLAIN, "order('a')\norder('a')['amount']", "1", (ORDER, ORDER), (ORDERED, ORDERED)),
    S("a tool that fails", PLAIN, "pay(5)", "the bank declined", ("pay [5]",), ("pay allow failed",)),
    S("a failure that is caught", PLAIN, CATCH.format("pay(5)"), "tool_failed", ("pay [5]",), ("pay allow failed",)),
    S("a server that ends", ENDING, "close()", "whether tool 'close' acted", ("close []",), ("close allow unknown",)),
    S("a missing argument", PLAIN, "price()", "not run:"),
    S("an unknown argument", PLAIN, "price('a', colour='red')", "colour"),
    S("a wrong type", PLAIN, "order('a', 'many')", "must be an integer"),
    S("a wrong type at run time", PLAIN, CATCH.format(MANY), "invalid_arguments", (), ("order allow invalid",)),
    S("an unknown tool", PLAIN, "prize('a')", "price"),
    S("an error before a call", PLAIN, "x = 1 / 0\norder('a')", "ZeroDivisionError"),
    S("an error after a call", PLAIN, "order('a')\n1 / 0", "do not repeat", (ORDER,), (ORDERED,)),
    S("None for an optional argument", PLAIN, "order('a', None)['amount']", "1", (ORDER,), (ORDERED,)),
    S("half a character", PLAIN, "say('\\ud800')", "lone surrogate"),
    S("calls at once", PLAIN, GATHER.format("price('a'), price('a')"), "2", (PRICE, PRICE), (PRICED, PRICED)),
    S("a call whose value nobody takes", PLAIN, "order('a')\nNone", "called: shop.order", (ORDER,), (ORDERED,)),
    S("a secret of the configuration", PLAIN, f"say('{SECRET}')", "***", (f'say ["{SECRET}"]',), (SAID,)),
    S("careful: reading", CAREFUL, "price('a')['price']", "7", (PRICE,), (PRICED,)),
    S("careful: approved", CAREFUL, "order('a')['amount']", "1", (ORDER,), (ORDERED,), (ONCE,)),
    S("careful: refused", CAREFUL, "order('a')", "refused", (), (NOT_APPROVED,), (NO,)),
    S("careful: refused twice", CAREFUL, CATCH.format("order('a')") * 2, "refused", (), (NOT_APPROVED,) * 2, (NO,)),
    S(
        "careful: for the program",
        CAREFUL,
        "order('a')\norder('b')['ordered']",
        "b",
        (ORDER, 'order ["b", 1]'),
        (ORDERED, ORDERED),
        (PROGRAM,),
    ),
    S("careful: can't be sent", CAREFUL, CATCH.format(MANY), "invalid_arguments", (), ("order ask invalid",)),
    S("read-only: reading", READ_ONLY, "price('a')['price']", "7", (PRICE,), (PRICED,)),
    S("read-only: writing", READ_ONLY, "order('a')", "not permitted"),
    S("read-only: writing, caught", READ_ONLY, CATCH.format("order('a')"), "refused", (), (REFUSED,)),
    S("a rule that denies", RULES, CATCH.format("remove('a')"), "nothing is removed", (), (REMOVED,)),
    S("a condition that denies", RULES, CATCH.format("order('a', 11)"), "ten at most", (), (REFUSED,)),
    S("a condition that lets pass", RULES, "order('a', 10)['amount']", "10", ('order ["a", 10]',), (ORDERED,)),
    S("a rate", RULES, "price('a')\n" * 3, "2/execution", (PRICE,) * 2, (PRICED, PRICED, "price deny refused")),
    S("a rule that asks", RULES, CATCH.format("pay(3)"), "declined", ("pay [3]",), ("pay allow failed",), (ONCE,)),
    S("a limit of calls", ONE_CALL, "price('a')\nprice('a')", "at most 1", (PRICE,), (PRICED,)),
    S("a guardrail that lets pass", SIZES, "say('short')", "short", ('say ["short"]',), (SAID,)),
    S(
        "a guardrail on results",
        SIZES,
        CATCH.format("say('long ' * 10)"),
        "withheld",
        (f'say ["{"long " * 10}"]',),
        ("say allow failed",),
    ),
    S("no values kept", NO_VALUES, "order('a')['amount']", "1", (ORDER,), (ORDERED,)),
    S("dry run: a read", PLAIN, "price('a')['price']", "7", (PRICE,), (PRICED,), dry_run=True),
    S("dry run: a write", PLAIN, "order('a')", "nothing was sent", (), (SIMULATED,), dry_run=True),
    S(
        "dry run: a denied call",
        RULES,
        CATCH.format("remove('a')"),
        "[denied",
        (),
        ("remove deny refused",),
        dry_run=True,
    ),
    S("dry run: a call that asks", CAREFUL, "order('a')", "[asks the user]", (), (SIMULATED,), dry_run=True),
    S("a token for an address", PRIVATE, f"say('{EMAIL}')", "<EMAIL_1>", (MAILED,), (SAID,)),
    S(
        "a token is not released",
        PRIVATE,
        f"say(say('{EMAIL}'))",
        "release",
        (f'say ["{EMAIL}"]',),
        (SAID, "say deny refused"),
    ),
]


class Products:
    """One for each configuration of the table, opened when it is first used; with and without a host that has forms."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: dict[str, Host] = {}
        self._open = AsyncExitStack()
        self.person = Person()

    async def host(self, situation: Situation) -> Host:
        key = json.dumps([situation.settings, bool(situation.answers)])
        if key not in self._hosts:
            folder = self._folder / str(len(self._hosts))
            folder.mkdir()
            callbacks = self.person.callbacks if situation.answers else {}
            opening = for_all(in_memory(written(folder, situation.settings), **callbacks))
            self._hosts[key] = await self._open.enter_async_context(opening)
        return self._hosts[key]

    async def close(self) -> None:
        await self._open.aclose()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def products(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Products]:
    opened = Products(tmp_path_factory.mktemp("products"))
    yield opened
    await opened.close()


async def recorded(path: Path, execution_id: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    shown = ["executions", "show", execution_id, "--json", "--config", str(path)]
    assert await anyio.to_thread.run_sync(run, shown) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def written(folder: Path, settings: dict[str, Any]) -> Path:
    server = fork_server.small_upstream(UPSTREAMS / "shop.py", str(folder / "shop.log"))
    server["env"] = {"SHOP_PASSWORD": "${SHOP_PASSWORD}"}
    (folder / ".env").write_text(f"SHOP_PASSWORD={SECRET}\n")
    (folder / ".env").chmod(0o600)
    state = {"dir": str(folder / "state"), "payloads": "all", **settings.get("state", {})}
    return configuration(folder, {"shop": server}, **{**settings, "state": state})


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda it: it.name)
async def test_situation(situation: Situation, products: Products, capsys: pytest.CaptureFixture[str]) -> None:
    host = await products.host(situation)
    log = host.folder / "shop.log"
    log.unlink(missing_ok=True)
    products.person.seen.clear()
    products.person.contents = [{"answer": label} for label in situation.answers]

    code = IMPORT + situation.program
    answer = await (host.run(code, dry_run=True) if situation.dry_run else host.run(code))

    reached = tuple(log.read_text().splitlines()) if log.exists() else ()
    document = await recorded(host.folder / "upstream.yaml", answer.content["execution_id"], capsys)
    calls = tuple(f"{it['tool'].removeprefix('shop.')} {it['decision']} {it['status']}" for it in document["calls"])
    assert (reached, calls) == (situation.reached, situation.recorded), answer.text
    assert situation.answer in answer.text
    assert len(products.person.seen) == len(situation.answers), "each question was asked once"
    assert SECRET not in answer.text + json.dumps(document), "a secret never leaves"
