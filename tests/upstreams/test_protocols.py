"""Both eras of MCP, and old servers that the newer one's probe kills or puzzles; what is found out is remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio

from codemode_server.domain.tools import UpstreamState
from codemode_server.upstreams.cache import fingerprint
from tests.upstreams.kit import QUICK, Kit


async def test_each_server_is_spoken_to_in_its_own_era(kit: Kit) -> None:
    servers = {"new": kit.modern(), "new_as_old": kit.modern(protocol="legacy"), "old": kit.raw("plain")}
    async with kit.pool(servers) as pool:
        assert {listing.name: listing.protocol for listing in pool.listings()} == {
            "new": "2026-07-28",
            "new_as_old": "2025-11-25",
            "old": "2025-06-18",
        }
        assert (await pool.call_tool("new", "add", {"a": 1, "b": 2})).value == 3
        assert (await pool.call_tool("new_as_old", "add", {"a": 1, "b": 2})).value == 3


async def test_a_server_that_dies_of_the_probe_is_started_again_without_it_and_remembered(
    kit: Kit, tmp_path: Path
) -> None:
    """Everything on mcp up to 1.6, for instance chroma-mcp 0.2.6."""
    log = tmp_path / "log"
    server = kit.raw("dies_at_probe", log)
    async with kit.pool({"s": server}) as pool:
        assert kit.is_ready(pool, "s")
    assert log.read_text().split()[:2] == ["server/discover", "initialize"]
    log.unlink()
    async with kit.pool({"s": server}) as pool:
        assert kit.is_ready(pool, "s")
    assert log.read_text().split()[0] == "initialize"


async def test_a_server_that_ignores_the_probe_costs_one_short_wait_once(kit: Kit, tmp_path: Path) -> None:
    """mcp waits 10 s, each time: more than there is for connecting."""
    log = tmp_path / "log"
    server = kit.raw("deaf", log)
    async with kit.pool({"s": server}, timings=replace(QUICK, connect_s=8)) as pool:
        assert kit.is_ready(pool, "s")
        assert (await pool.call_tool("s", "a", {})).value == "ok"
    log.unlink()
    async with kit.pool({"s": server}, timings=replace(QUICK, probe_s=60)) as pool:
        assert kit.is_ready(pool, "s")
    assert "server/discover" not in log.read_text()


async def test_a_remembered_protocol_mode_that_no_longer_works_is_dropped(kit: Kit) -> None:
    server = kit.modern()
    async with kit.pool({"s": kit.raw("dies_at_probe")}):
        pass
    (_, listing) = kit.cache.kept.pop("s")
    await kit.cache.put("s", fingerprint(server), replace(listing, server_version=None))
    async with kit.pool({"s": server}) as pool:
        assert kit.is_ready(pool, "s")
    async with kit.pool({"s": server}) as pool:
        assert kit.listing(pool, "s").protocol == "2026-07-28"


async def test_a_modern_server_that_is_slow_to_start_is_still_found_to_be_modern(kit: Kit, tmp_path: Path) -> None:
    """The handshake sent beside the unanswered probe must not turn it into an old one."""
    async with kit.pool({"s": kit.modern()}, timings=replace(QUICK, probe_s=0.01)) as pool:
        assert kit.listing(pool, "s").protocol == "2026-07-28"
        assert (await pool.call_tool("s", "add", {"a": 1, "b": 2})).value == 3
    assert kit.cache.kept["s"][1].protocol_mode == "auto"


async def test_a_server_slow_to_start_is_waited_for_by_its_calls(kit: Kit, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with kit.pool({"s": kit.raw("slow", gate)}, settled=False) as pool, anyio.create_task_group() as tasks:
        values = []

        async def call() -> None:
            values.append((await pool.call_tool("s", "a", {})).value)

        tasks.start_soon(call)
        await kit.until(lambda: kit.listing(pool, "s").state is UpstreamState.CONNECTING)
        gate.touch()
    assert values == ["ok"]
