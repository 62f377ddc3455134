"""Threat: an upstream whose answer is too much, in bytes, in values, in depth, or without an end.

Rule: it costs that call, which fails at once and says why; the connection, other calls and memory are as before. Each
attack is made by the same tool that answers a harmless call right after it, over the same connection.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import CallError, ResultTooLarge, ToolFailed, UpstreamUnavailable
from codemode_server.domain.tools import UpstreamState
from codemode_server.upstreams.pool import UpstreamPool
from codemode_server.upstreams.progress import CallProgress
from tests.upstreams.kit import Kit

pytestmark = pytest.mark.slow

FLOODING = Path(__file__).parent / "servers" / "flooding.py"
MIB = 2**20


@pytest.fixture
def kit() -> Kit:
    return Kit()


@contextmanager
def upstream(kind: str, *words: str) -> Iterator[ServerSettings]:
    if kind == "stdio":
        yield ServerSettings(command=sys.executable, args=(str(FLOODING), "stdio"), timeout=90)
        return
    server = subprocess.Popen([sys.executable, str(FLOODING), "http", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield ServerSettings(url=f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp", timeout=90)
    finally:
        server.kill()
        server.communicate()


async def is_served(pool: UpstreamPool, **arguments: Any) -> None:
    """The positive control: the same tool answers, over the same connection."""
    progress = CallProgress()
    assert (await pool.call_tool("s", "act", {"size": 1, **arguments}, progress=progress)).value == "pong"
    assert progress.restart == ""


TOO_MUCH: list[tuple[str, dict[str, Any], type[CallError], str]] = [
    ("stdio", {"what": "text", "size": 17 * MIB}, ResultTooLarge, "larger than 16 MiB; ask for less of it"),
    ("stdio", {"what": "no end", "size": 100 * MIB}, ResultTooLarge, "larger than 16 MiB"),
    ("stdio", {"what": "values", "size": 2 * MIB}, ResultTooLarge, "more than 500,000 values"),
    ("stdio", {"what": "deep", "size": 30_000}, ResultTooLarge, "nested more than 500 deep"),
    ("stdio", {"what": "deep", "size": 300}, ResultTooLarge, "nested more than 200 deep; ask for a part"),
    ("stdio", {"what": "broken", "size": 10}, ToolFailed, "the result of tool 'act' of server 's' is not valid JSON"),
    ("http", {"what": "values", "size": 2 * MIB}, ResultTooLarge, "more than 500,000 values"),
    ("http", {"what": "deep", "size": 5_000}, ResultTooLarge, "nested more than 500 deep"),
    ("http", {"what": "broken", "size": 100_000}, ToolFailed, "not valid JSON"),
    ("http", {"form": "endless"}, ResultTooLarge, "larger than 16 MiB"),
    ("http", {"form": "error"}, UpstreamUnavailable, "HTTP 500"),
    ("http", {"form": "gzip", "size": 100 * MIB}, ResultTooLarge, "larger than 16 MiB"),
    ("http", {"form": "gzip of nothing", "size": 10 * MIB}, ToolFailed, "which its Content-Encoding header says"),
    ("http", {"form": "gzip in name only"}, ToolFailed, "is not valid gzip, which its Content-Encoding header says"),
    ("http", {"form": "events", "what": "text", "size": 17 * MIB}, ResultTooLarge, "larger than 16 MiB"),
    ("http", {"form": "events", "what": "broken", "size": 10}, ToolFailed, "is not valid JSON$"),
    ("http", {"form": "events endless"}, ResultTooLarge, "larger than 16 MiB"),
]


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_an_answer_that_is_too_much_fails_its_call_alone(kit: Kit, kind: str) -> None:
    with upstream(kind) as settings:
        async with kit.pool({"s": settings}) as pool:
            for at, arguments, error, message in TOO_MUCH:
                if at == kind:
                    with pytest.raises(error, match=message):
                        await pool.call_tool("s", "act", arguments)
                    await is_served(pool)


@pytest.mark.parametrize(("kind", "form"), [("stdio", ""), ("http", "json"), ("http", "events")])
async def test_a_value_that_is_nested_as_deep_as_may_be_comes_whole(kit: Kit, kind: str, form: str) -> None:
    """The positive control of nesting. mcp itself would refuse the last two over HTTP."""
    with upstream(kind) as settings:
        async with kit.pool({"s": settings}) as pool:
            for levels in (130, 199):
                value = (await pool.call_tool("s", "act", {"what": "deep", "size": levels, "form": form})).value["x"]
                for _ in range(levels - 1):
                    (value,) = value
                assert value == []


def peak_begins() -> int:
    """Memory in use now; the peak is counted from here."""
    tracemalloc.start()
    tracemalloc.reset_peak()
    return tracemalloc.get_traced_memory()[0]


async def test_a_line_without_an_end_is_thrown_away_as_it_comes(kit: Kit) -> None:
    """It is more than 256 MiB, at which the connection ends: nothing else could come before the end of the line."""
    with upstream("stdio") as settings:
        async with kit.pool({"s": settings}) as pool:
            before = peak_begins()
            try:
                value = (await pool.call_tool("s", "act", {"what": "text", "size": 15 * MIB})).value
                assert len(value) == 15 * MIB
                del value
                assert tracemalloc.get_traced_memory()[1] - before > 15 * MIB, "control: what is held is seen"
                before = peak_begins()
                with pytest.raises(ResultTooLarge):
                    await pool.call_tool("s", "act", {"what": "no end", "size": 258 * MIB, "form": "ever"})
                with pytest.raises(UpstreamUnavailable, match="ended during the call"):
                    await pool.call_tool("s", "act", {"size": 1})
                assert tracemalloc.get_traced_memory()[1] - before < 48 * MIB
            finally:
                tracemalloc.stop()
            progress = CallProgress()
            assert (await pool.call_tool("s", "act", {"size": 1}, progress=progress)).value == "pong"
            assert progress.restart == "restarted", "and begins anew"


@pytest.mark.parametrize("form", ["json", "gzip of it", "events in lines"])
async def test_a_large_answer_that_is_no_attack_comes_as_it_was_sent(kit: Kit, form: str) -> None:
    with upstream("http") as settings:
        async with kit.pool({"s": settings}) as pool:
            found = await pool.call_tool("s", "act", {"what": "rows", "size": MIB, "form": form})
            assert len(found.value["x"]) == MIB // 60 + 1
            assert found.value["x"][-2] == {"id": 12345, "name": "name of it", "tags": ["a", "b"], "ok": True}
            await is_served(pool, form=form)


def listing(tools: int, size: int, what: str) -> ServerSettings:
    """An upstream that lists many tools of one size."""
    return ServerSettings(command=sys.executable, args=(str(FLOODING), "stdio", str(tools), str(size), what))


async def test_of_a_large_listing_the_tools_that_fit_are_taken_and_it_is_said(kit: Kit) -> None:
    said = "only the first 10,000 tools are taken; 2,001 or more are left out"
    for server, taken, problems in (
        (listing(12_000, 100, "fields"), 10_000, [said]),
        (listing(40, 300_000, "text"), 41, []),
    ):
        async with kit.pool({"s": server}) as pool:
            found = kit.listing(pool, "s")
            assert len(found.tools) == taken
            assert [problem[: len(said)] for problem in found.problems] == problems
            assert sum(len(tool.description) for tool in found.tools) < 2 * MIB
            await is_served(pool)
    async with kit.pool({"s": listing(2_000, 10_000, "long fields")}) as pool:
        found = kit.listing(pool, "s")
        assert found.state is UpstreamState.FAILED
        assert found.error == "its list of tools is larger than 16 MiB"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("broken", r"\Aits answer to the handshake is not valid JSON\Z"),
        ("gzip in name only", r"\Aits answer to the handshake is not valid gzip, which its Content-Encoding"),
    ],
)
async def test_a_handshake_that_can_not_be_read_is_said_to_be_that(kit: Kit, form: str, said: str) -> None:
    """Nothing of the body is told: mcp would tell the part of it that is left after a cut, with half a secret."""
    with upstream("http", "0", "0", form) as settings:
        async with kit.pool({"s": settings}) as pool:
            found = kit.listing(pool, "s")
    assert found.state is UpstreamState.FAILED
    assert re.search(said, found.error or "")
