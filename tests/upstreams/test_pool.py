"""Many upstreams at once: one costs the others nothing, the last run's tools are there at once, edits cost little."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from codemode_server.config.settings import ToolFilter
from codemode_server.domain.errors import UpstreamUnavailable
from codemode_server.domain.input_requests import Feature, InputRequest
from codemode_server.domain.tools import ToolDefinition, UpstreamState
from codemode_server.upstreams.cache import CachedListing, fingerprint
from codemode_server.upstreams.pool import UpstreamPool
from codemode_server.upstreams.progress import CallProgress
from tests.upstreams.kit import QUICK, Kit
from tests.waiting import PATIENCE_S


async def test_slow_dead_and_crashing_upstreams_cost_the_others_nothing(kit: Kit, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = {f"slow{number}": kit.raw("slow", gate) for number in range(9)}  # more than may start at once
    servers = {**slow, "dead": kit.raw("exits"), "good": kit.raw("plain")}
    async with kit.pool(servers, timings=replace(QUICK, slot_s=0.2), settled=False) as pool:
        with anyio.fail_after(PATIENCE_S):
            assert (await pool.call_tool("good", "a", {})).value == "ok"
        await kit.until(lambda: kit.listing(pool, "dead").state is UpstreamState.FAILED)
        assert {kit.listing(pool, name).state for name in slow} <= {UpstreamState.WAITING, UpstreamState.CONNECTING}
        gate.touch()
        await kit.until(lambda: all(kit.is_ready(pool, name) for name in slow))


def test_importing_the_pool_imports_nothing_of_mcp() -> None:
    """It takes 0.5 s and more, in which the host waits for its handshake."""
    code = "import sys, codemode_server.upstreams.pool; print([name for name in sys.modules if name.startswith('mcp')])"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True).stdout == b"[]\n"


async def test_tools_of_the_last_run_are_there_at_once_with_the_state_of_now(kit: Kit) -> None:
    server = kit.raw("plain", tools=ToolFilter(exclude=("secret*",)))
    tools = (ToolDefinition("old"), ToolDefinition("secret_one"))
    await kit.cache.put("s", fingerprint(server), CachedListing(tools, "Cached.", "2025-06-18"))
    async with UpstreamPool({"s": server}, kit.cache).open() as pool:
        listing = kit.listing(pool, "s")
        assert (listing.state, listing.description, listing.protocol) == (UpstreamState.WAITING, "Cached.", None)
        assert listing.tools == (ToolDefinition("old"),)
        pool.connect()
        assert await pool.wait_settled(PATIENCE_S)
        assert [tool.name for tool in kit.listing(pool, "s").tools] == ["a"]


async def test_an_edit_restarts_only_what_it_has_to(kit: Kit) -> None:
    before = {"same": kit.modern(), "edited": kit.modern(), "gone": kit.raw("plain")}
    async with kit.pool(before) as pool:
        pids = {name: (await pool.call_tool(name, "pid", {})).value for name in ("same", "edited")}
        filtered = kit.modern(tools=ToolFilter(include=("p*",)), description="Mine.", timeout=5)
        await pool.reconfigure({"new": kit.raw("plain"), "same": filtered, "edited": kit.modern(env={"PROBE_X": "1"})})
        assert [listing.name for listing in pool.listings()] == ["new", "same", "edited"]
        assert [tool.name for tool in kit.listing(pool, "same").tools] == ["pid"]
        assert kit.listing(pool, "same").description == "Mine."
        assert (await pool.call_tool("same", "pid", {})).value == pids["same"]
        assert (await pool.call_tool("edited", "pid", {})).value != pids["edited"]
        assert (await pool.call_tool("edited", "whoami", {})).value["PROBE_X"] == "1"
        assert (await pool.call_tool("new", "a", {})).value == "ok"


async def test_a_call_meanwhile_goes_to_the_new_connection(kit: Kit, tmp_path: Path) -> None:
    """The old server takes long to end, and a call that waited for its connection would wait in vain."""
    async with kit.pool({"s": kit.raw("stubborn", tmp_path / "pids")}) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(pool.reconfigure, {"s": kit.raw("plain")})
        await anyio.wait_all_tasks_blocked()
        assert not kit.is_ready(pool, "s"), "the control: the old one is ending"
        with anyio.fail_after(PATIENCE_S):
            assert (await pool.call_tool("s", "a", {})).value == "ok"


async def test_a_server_that_asks_without_reading_the_answers_is_answered_a_bounded_number_of_times(kit: Kit) -> None:
    async with kit.pool({"s": kit.raw("pinging")}) as pool:
        assert (await pool.call_tool("s", "a", {})).value == "ok"
        assert len(asyncio.all_tasks()) < 550


async def test_a_server_that_asks_much_at_once_gets_an_error_for_each_request_that_is_not_answered(kit: Kit) -> None:
    class Slow:
        """An `InputProvider` whose person takes their time."""

        session_id, features = "s", frozenset[Feature]()

        async def answer(self, request: InputRequest) -> dict[str, Any]:
            await anyio.sleep_forever()
            raise AssertionError

    async with kit.pool({"s": kit.raw("curious")}) as pool:
        with anyio.fail_after(PATIENCE_S):
            errors = (await pool.call_tool("s", "a", {}, progress=CallProgress(input_provider=Slow()))).value
    assert errors == "20 errors: 100 requests are being answered; ask again later"


async def test_every_change_is_told_of_and_nothing_else(kit: Kit) -> None:
    seen: list[tuple[UpstreamState, int]] = []
    pools: list[UpstreamPool] = []

    def note() -> None:
        if pools:
            listing = kit.listing(pools[0], "s")
            seen.append((listing.state, len(listing.tools)))

    async with UpstreamPool({"s": kit.raw("plain")}, kit.cache, note).open() as pool:
        pools.append(pool)
        pool.connect()
        assert await pool.wait_settled(PATIENCE_S)
        pools.clear()
    assert seen == [(UpstreamState.CONNECTING, 0), (UpstreamState.READY, 1)]


async def test_calls_on_their_way_end_with_the_pool(kit: Kit) -> None:
    failures: list[Exception] = []

    async def call(pool: UpstreamPool) -> None:
        try:
            await pool.call_tool("s", "a", {})
        except UpstreamUnavailable as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        async with kit.pool({"s": kit.raw("never")}) as pool:
            tasks.start_soon(call, pool)
            await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            await kit.until(lambda: len(failures) == 1)
