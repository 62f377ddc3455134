"""While a program runs the host hears of it; when the host lets go, the program and its calls in flight end."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from .product import configuration, in_memory, office

pytestmark = pytest.mark.slow

WAIT = "from servers.slow import wait\nwait(seconds={seconds})"


async def test_a_cancelled_request_ends_the_program_and_its_call_at_the_upstream(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, office(tmp_path, "slow"))) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run, WAIT.format(seconds=60))
            await host.until(lambda: bool(host.reached("wait")))
            tasks.cancel_scope.cancel()
        await host.until(lambda: bool(host.reached("cancelled")))
        assert (await host.run("1 + 1")).value == 2


async def test_what_an_upstream_reports_reaches_the_host(tmp_path: Path) -> None:
    """What it says of itself is untrusted."""
    servers = office(tmp_path, "slow")
    servers["slow"]["env"]["SLOW_TOKEN"] = "s3cr3t-canary-value"
    said = "comp\x1b[31miling\nwith s3cr3t-\u200bcanary-value " + "x" * 500
    heard: list[tuple[float, float | None, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message or ""))

    code = f"from servers.slow import work\nwork(steps=4, seconds=0.4, message={said!r})"
    async with in_memory(configuration(tmp_path, servers)) as host:
        answer = await host.client.call_tool("execute_code", {"code": code}, progress_callback=hear)
        assert not answer.is_error, answer
    numbers, totals, lines = zip(*heard, strict=True)
    assert list(numbers) == sorted(set(numbers)), "MCP: it grows with each notification"
    assert 100.0 in totals, "of so many calls, while it is known how far they are"
    assert any(line.startswith("waiting for slow.work (") and "%: compiling with" in line for line in lines)
    assert "canary" not in str(lines)
    assert all(line.isprintable() and len(line) < 300 for line in lines)
