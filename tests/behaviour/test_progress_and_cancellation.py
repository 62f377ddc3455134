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


WORK = "from servers.slow import work\nwork(steps={steps}, seconds={seconds}, message={message!r})"


class Notifications:
    """The progress notifications that a host gets."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.totals: list[float | None] = []
        self.lines: list[str] = []

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        self.numbers.append(progress)
        self.totals.append(total)
        self.lines.append(message or "")


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_what_an_upstream_reports_keeps_its_call_alive_and_reaches_the_host(
    tmp_path: Path, protocol: str
) -> None:
    """An operation of 2.4 s under an upstream timeout of 1 s; what it says of itself is untrusted."""
    servers = office(tmp_path, "slow")
    servers["slow"] |= {"timeout": 1, "protocol": protocol}
    servers["slow"]["env"]["SLOW_TOKEN"] = "s3cr3t-canary-value"
    said, heard = "comp\x1b[31miling\nwith s3cr3t-\u200bcanary-value " + "x" * 500, Notifications()
    async with in_memory(configuration(tmp_path, servers), mode=protocol) as host:
        silent = await host.run(WORK.format(steps=1, seconds=2.4, message=None))
        assert "servers.slow.timeout" in silent.text, "control: without a report it times out"
        code = WORK.format(steps=8, seconds=0.3, message=said) + "\nwork(steps=2, seconds=0.4, message='again')"
        answer = await host.client.call_tool("execute_code", {"code": code}, progress_callback=heard.take)
        assert not answer.is_error, answer
    assert heard.numbers == sorted(set(heard.numbers)), "MCP: it grows with each notification"
    reports = [line for line in heard.lines if line.startswith("waiting for slow.work (")]
    assert any("compiling with" in line for line in reports)
    assert any("(50%: again); 1 call done" in line for line in reports)
    assert "canary" not in str(heard.lines)
    assert all(line.isprintable() and len(line) < 300 for line in heard.lines)
    assert {100.0, 200.0} <= set(heard.totals), "of so many calls, while it is known how far they are"
    assert any(50 <= number < 100 for number in heard.numbers)
