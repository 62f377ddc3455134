"""Threat: programs make more calls than a limit lets through, by calling at once, in other sessions or in other ways.

Rule: a limit of time holds for the principal, however the calls are made; one of the execution for all its calls. The
proof is the log of the upstream, and the control of each is that exactly as many calls arrive as the limit says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from codemode_server.app import App
from codemode_server.config import load
from tests.attacks.kit import RAW
from tests.behaviour.product import PLAIN, configuration, for_all, started
from tests.behaviour.test_approvals import connected

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAYS = ("calls", "framed", "mixed", "cancelled", "direct", "sessions", "each")
LIMIT = 5
UPSTREAM = (
    PLAIN
    + f"""
import json
server, log = Server("shop"), sys.argv[1]

def offer(name):
    def buy(text: str = "") -> str:
        with open(log, "a") as file:
            file.write(json.dumps(name) + "\\n")
        return "done"
    buy.__name__ = name
    server.tool("Buy something.")(buy)

for name in {WAYS!r}:
    offer(name)

server.run()
"""
)
RULES: list[dict[str, Any]] = [
    {"allow": "shop/each", "limit": f"{LIMIT}/execution"},
    *({"allow": f"shop/{name}", "limit": f"{LIMIT}/hour"} for name in WAYS if name != "each"),
]


def shop(folder: Path) -> Path:
    script = folder / "shop.py"
    script.write_text(UPSTREAM)
    server = started(script, str(folder / "shop.log")) | {"direct": ["*"]}
    permissions = {"default": "deny", "rules": RULES}
    return configuration(folder, {"shop": server}, permissions=permissions, limits={"calls_in_flight": 32})


def arrived(app: App) -> Counter[str]:
    """How many calls of each tool reached the upstream."""
    log = app.loaded.base_dir / "shop.log"
    return Counter(json.loads(line) for line in log.read_text().splitlines()) if log.exists() else Counter()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with for_all(App.open(load(shop(tmp_path_factory.mktemp("shop"))))) as opened:
        async with connected(opened) as it:
            await it.host.settled()
        yield opened


TRY = "try:\n        {}\n    except ToolError as error:\n        print(error)\n"
EACH_TIME = "from codemode import ToolError\nfor n in range(12):\n    " + TRY
EVASIONS = {
    "calls": "from servers.shop import calls\n" + EACH_TIME.format("calls(text=str(n))"),
    "framed": RAW
    + "for n in range(1, 13): send(op='call', id=n, server='shop', tool='framed', arguments={})\n"
    + "for n in range(12): receive()",
    "mixed": "import codemode\nfrom client import call_mcp_tool\nfrom servers import shop\n"
    "ToolError = codemode.ToolError\n"
    "ways = [lambda: shop.mixed(), lambda: shop.mixed.raw(), lambda: codemode.call('shop', 'mixed'),\n"
    "        lambda: call_mcp_tool('mcp__shop__mixed'), lambda: getattr(shop, 'mix' + 'ed')(text='x')]\n"
    "for way in ways * 3:\n    " + TRY.format("way()"),
    "cancelled": "import asyncio\nfrom servers.shop import cancelled\n"
    "for n in range(12):\n    try:\n        await asyncio.wait_for(cancelled(text=str(n)), 0.0001)\n"
    "    except Exception as error:\n        print(error)\nawait asyncio.sleep(0.2)",
    "each": "import asyncio\nfrom servers.shop import each\n"
    "await asyncio.gather(*(each(text=str(n)) for n in range(12)), return_exceptions=True)",
}


@pytest.mark.evasion
@pytest.mark.parametrize("way", EVASIONS)
async def test_a_program_makes_no_more_calls_than_its_limit(app: App, way: str) -> None:
    async with connected(app) as it:
        await it.host.run(EVASIONS[way])
        first = arrived(app)[way]
        await it.host.run(EVASIONS[way])
        last = await it.host.run(f"from servers.shop import {way}\nfor n in range({LIMIT} + 1): {way}()")
    if way == "each":
        assert (first, arrived(app)[way]) == (LIMIT, 3 * LIMIT), "each program has its own limit"
        return
    if way == "cancelled":  # one that was cancelled as it was recorded counts, and may not have arrived
        assert first <= arrived(app)[way] <= LIMIT
    else:
        assert first == arrived(app)[way] == LIMIT
    assert f"its limit of {LIMIT}/hour is reached" in last.text


@pytest.mark.evasion
async def test_sessions_at_the_same_time_share_a_limit(app: App) -> None:
    code = (
        "import asyncio\nfrom servers.shop import sessions\n"
        "await asyncio.gather(*(sessions(text=str(n)) for n in range(6)), return_exceptions=True)"
    )
    async with AsyncExitStack() as stack:
        hosts = [(await stack.enter_async_context(connected(app))).host for _ in range(4)]
        async with anyio.create_task_group() as tasks:
            for host in hosts:
                tasks.start_soon(host.run, code)
    assert arrived(app)["sessions"] == LIMIT


@pytest.mark.evasion
async def test_direct_calls_and_programs_share_a_limit(app: App) -> None:
    async with connected(app) as it:
        for _ in range(3):
            await it.host.call("shop__direct")
        await it.host.run("from servers.shop import direct\n" + EACH_TIME.format("direct(text=str(n))"))
        refused = await it.host.call("shop__direct")
    assert arrived(app)["direct"] == LIMIT
    assert f"its limit of {LIMIT}/hour is reached" in refused.text
