"""Runs the rows and writes `RESULTS.md`; exits 1 if a budget is missed. With `--attacks`, only those, and no file."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import bpe_openai
from mcp import Client, StdioServerParameters

from benchmarks import attack_table, attacks, start
from benchmarks.product import resident_mib
from benchmarks.search.corpora import Missing, catalog_of, toolsets
from codemode_server import __version__
from codemode_server.app import App
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import list_dir, read_tool
from codemode_server.config import load
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState, definition_text
from codemode_server.executions.preflight.preflight import Preflight
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.support.tokens import estimate_tokens

HERE = Path(__file__).parent
UPSTREAM = str(HERE / "upstream.py")
SEARCH = {"ranker": "static"}
"""What an installation without extras ranks by; a model would be loaded beside what is timed here."""


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    budget: str = ""
    is_kept: bool | None = None
    """None where there is no budget."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--attacks"]:
        return attacks.main(arguments[1:])
    attacked = attacks.costs(list(attack_table.ATTACKS))
    rows = [
        *first_answers(),
        tools_in_context(),
        *discovery(),
        *anyio.run(execution),
        anyio.run(checking),
        stubs(),
        token_estimate(),
        *under_attack(attacked),
    ]
    width = max(len(row.what) for row in rows)
    for row in rows:
        verdict = {True: "kept", False: "MISSED", None: ""}[row.is_kept]
        print(f"{row.what:<{width}}  {row.measured}  {row.budget and f'(budget {row.budget})'} {verdict}")
    (HERE / "RESULTS.md").write_text("\n".join([_markdown(rows), *attacks.markdown(attacked), ""]))
    return 1 if any(row.is_kept is False for row in rows) else 0


def first_answers() -> list[Row]:
    tools = f"{start.SERVERS} upstreams with {start.SERVERS * start.TOOLS_EACH:,} tools, over a bare MCPServer"
    rows = []
    for what, limit, found in zip(
        ("host handshake", "start to the list of the four tools"), (0.5, 1.3), start.measure(SEARCH), strict=True
    ):
        milliseconds = f"{found.ours_ms:.0f} over {found.peer_ms:.0f} ms; least {found.least_ratio:.2f} x"
        measured = f"{found.ratio:.2f} x ({milliseconds})"
        rows.append(Row(f"{what}, {tools}", measured, f"under {limit} x", found.ratio < limit))
    return rows


def tools_in_context() -> Row:
    tokens = _tokens(json.dumps(definitions(Settings())) + INSTRUCTIONS)
    what = "the four tools and the instructions in the model's context"
    return Row(what, f"{tokens:,} tokens", "under 1,200", tokens < 1_200)


def discovery() -> list[Row]:
    catalog = Catalog.build(_listings(60, 50))
    levels = RankerStack()
    started = time.perf_counter()
    levels.index(collections(catalog))
    built = time.perf_counter() - started
    queries = ("create an issue in a repository", "list unread messages", "delete record", "export as pdf", "weather")
    names = [server.name for server in catalog.servers]
    works: dict[str, Callable[[int], object]] = {
        "list_dir": lambda n: list_dir(catalog, f"/servers/{names[n % len(names)]}").text,
        "read_tool": lambda n: read_tool(catalog, catalog.servers[n % 60].tools[n % 50].path)[0].text,
        "search_tools": lambda n: search_tools(catalog, levels, queries[n % len(queries)]).text,
    }
    at = f"{catalog.tool_count:,} tools"
    rows = [Row(f"index of {at} built", f"{built:.2f} s", "under 1 s", built < 1)]
    for name, work in works.items():
        times = []
        for number in range(300):
            started = time.perf_counter()
            work(number)
            times.append((time.perf_counter() - started) * 1e3)
        rows.append(Row(f"{name} at {at}", _percentiles(times), "p50 under 10 ms", statistics.median(times) < 10))
    return rows


async def execution() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "upstream.yaml"
        settings = {
            "servers": {"bench": {"command": sys.executable, "args": [UPSTREAM]}},
            "state": {"dir": f"{folder}/state"},
            "search": SEARCH,
            "results": {"structured_content": True},
        }
        config.write_text(json.dumps(settings))
        async with App.open(load(config)) as app, Client(app.front) as client:

            async def run(code: str) -> Any:
                result = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=120)
                assert result.structured_content["status"] == "succeeded", result.content
                return result.structured_content.get("value")

            await client.list_tools()
            await app.pool.wait_settled(30)
            await run("1+1")
            times = [await _milliseconds(lambda: run("1+1")) for _ in range(60)]
            is_kept = statistics.median(times) < 15
            one = Row('execute_code("1+1"), warm, wasm', _percentiles(times), "p50 under 15 ms", is_kept)
            return [one, await _call_overhead(run), await _many_rows(run)]


async def _call_overhead(run: Callable[[str], Awaitable[Any]], calls: int = 200) -> Row:
    code = (
        "import time\nfrom servers.bench import echo\nfor n in range(20): echo(number=n)\ntimes = []\n"
        f"for n in range({calls}):\n"
        "    t = time.perf_counter(); echo(number=n); times.append(time.perf_counter() - t)\n"
        "sorted(times)[len(times) // 2] * 1000"
    )
    inside: list[float] = []
    direct: list[float] = []
    async with Client(StdioServerParameters(command=sys.executable, args=[UPSTREAM])) as peer:
        for _ in range(3):
            inside.append(await run(code))
            times = [await _milliseconds(lambda: peer.call_tool("echo", {"number": 1})) for _ in range(calls)]
            direct.append(statistics.median(times))
    more = min(inside) - min(direct)
    what = "a call from a program to an upstream, over a direct call from a client"
    return Row(what, f"{more:+.2f} ms ({min(inside):.2f} over {min(direct):.2f} ms)", "under 2 ms more", more < 2)


async def _many_rows(run: Callable[[str], Awaitable[Any]]) -> Row:
    code = (
        "from servers.bench import rows\n[r for r in rows() if r['status'] == 'pending' and r['amount'] > 13_000][:5]"
    )
    before = peak = resident_mib(os.getpid())
    times = []
    for _ in range(5):
        times.append(await _milliseconds(lambda: run(code)))
        peak = max(peak, resident_mib(os.getpid()))
    seconds, grown = statistics.median(times) / 1e3, peak - before
    what = "10,000 rows through a program, only 5 reach the model"
    is_kept = seconds < 1 and grown < 64
    return Row(what, f"{seconds:.2f} s, {grown:.0f} MiB more on the host", "under 1 s, under 64 MiB", is_kept)


async def checking(runs: int = 100) -> Row:
    """The check before a program runs."""
    catalog = Catalog.build(_listings(60, 50))

    async def listed() -> None:
        return None

    program = (HERE / "program.txt").read_text()
    preflight = Preflight(catalog=lambda: catalog, listed=listed, config=LiveConfig())
    first = await _milliseconds(lambda: preflight.check(program))
    # Each a little other than the last, as programs are.
    programs = [program.replace("report", f"report_{number}") for number in range(runs)]
    times = [await _milliseconds(lambda code=code: preflight.check(code)) for code in programs]  # type: ignore[misc]
    what = f"check of a program of {len(program.splitlines())} lines before it runs, at {catalog.tool_count:,} tools"
    measured = f"{_percentiles(times)}; the first {first:.0f} ms"
    return Row(what, measured, "p50 under 50 ms", statistics.median(times) < 50)


def stubs() -> Row:
    """A stub against the JSON definition it stands for, over the tools of real servers, where those are at hand."""
    try:
        catalog = catalog_of(toolsets())
    except Missing as reason:
        return Row("tokens of the stubs over their JSON definitions", f"skipped: {reason}")
    started = time.perf_counter()
    written = sum(_tokens(tool.stub.source) for tool in catalog.tools())
    seconds = time.perf_counter() - started
    defined = sum(_tokens(definition_text(tool.definition)) for tool in catalog.tools())
    return Row(
        f"tokens of {catalog.tool_count:,} stubs over their JSON definitions",
        f"{written / defined:.2f} x ({written:,} over {defined:,}); generated in {seconds:.2f} s",
        "under 1 x",
        written < defined,
    )


def under_attack(found: list[attacks.Cost]) -> list[Row]:
    """The worst of the attacks, by each measure."""
    slowest, largest = max(found, key=lambda cost: cost.delay_ms), max(found, key=lambda cost: cost.host_mib)
    worker = max(found, key=lambda cost: cost.worker_mib)
    return [
        Row(
            f'another session\'s execute_code("1+1") under the worst of {len(found)} attacks, over its usual time',
            f"+{slowest.delay_ms:.0f} ms ({slowest.attack})",
            f"under {attacks.DELAY_MS:.0f} ms more",
            slowest.delay_ms < attacks.DELAY_MS and not any(cost.fault for cost in found),
        ),
        Row(
            f"the host's memory under the worst of {len(found)} attacks, above what it was",
            f"+{largest.host_mib:.0f} MiB ({largest.attack}); the largest worker {worker.worker_mib:.0f} MiB",
            f"under {attacks.HOST_MIB:.0f} MiB more; {attacks.WORKER_MIB:.0f} MiB",
            largest.host_mib < attacks.HOST_MIB and worker.worker_mib < attacks.WORKER_MIB,
        ),
    ]


def token_estimate() -> Row:
    texts = [path.read_text() for path in sorted(HERE.parent.glob("codemode_server/**/*.py"))[:60]]
    texts += [definition_text(tool) for listing in _listings(10, 20) for tool in listing.tools]
    off = sum(map(estimate_tokens, texts)) / sum(map(_tokens, texts)) - 1
    return Row("the estimate of tokens against o200k", f"{off:+.1%}", "within 10 %", abs(off) < 0.1)


def _listings(servers: int, tools: int) -> list[UpstreamListing]:
    """Made-up servers with tools of the usual size."""
    verbs = ("create", "list", "get", "update", "delete", "search", "export", "archive", "assign", "merge")
    nouns = ("issue", "message", "record", "report", "invoice", "repository", "channel", "contact", "page", "ticket")
    texts = {
        "owner": "Account that owns it, as in the address",
        "identifier": "Its identifier",
        "filter": "Expression that narrows the result",
        "limit": "Most results to give",
    }

    def tool(server: int, number: int) -> ToolDefinition:
        verb, noun = verbs[number % 10], nouns[(number // 10 + server) % 10]
        properties = {
            name: {"type": "integer" if name == "limit" else "string", "description": text}
            for name, text in texts.items()
        }
        properties["state"] = {"type": "string", "description": "Only those in this state"}
        return ToolDefinition(
            f"{verb}_{noun}_{number}",
            f"{verb.capitalize()} a {noun} of the workspace. Needs the right to {verb} it; gives the {noun} as it is.",
            None,
            {"type": "object", "properties": properties, "required": ["owner"]},
        )

    return [
        UpstreamListing(
            f"server{server}",
            UpstreamState.READY,
            tuple(tool(server, number) for number in range(tools)),
            f"Service number {server}",
        )
        for server in range(servers)
    ]


async def _milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1e3


def _percentiles(milliseconds: list[float]) -> str:
    high = statistics.quantiles(milliseconds, n=20)[18]
    return f"p50 {statistics.median(milliseconds):.2f} ms, p95 {high:.2f} ms"


_ENCODING = bpe_openai.get_encoding("o200k_base")


def _tokens(text: str) -> int:
    return len(_ENCODING.encode(text))


def _markdown(rows: list[Row]) -> str:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}"
    lines = [
        "# Results",
        "",
        f"`make bench` of codemode-server {__version__} on {datetime.now(UTC):%Y-%m-%d}: {machine}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}.",
        "Times are of a shared machine: read the ratios.",
        "",
        "| what | measured | budget | |",
        "|---|---|---|---|",
    ]
    marks = {True: "kept", False: "**missed**", None: ""}
    lines += [f"| {row.what} | {row.measured} | {row.budget} | {marks[row.is_kept]} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
