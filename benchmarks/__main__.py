"""Runs the rows and writes `RESULTS.md`; exits 1 if a budget is missed. With `--attacks`, only those, and no file."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from mcp import Client

from benchmarks import attack_table, attacks, function_calls, nodes, packages, peers, sizes, start
from benchmarks.product import HERE, configuration, resident_mib, stdio_upstream
from benchmarks.report import Row, measured_by, milliseconds, milliseconds_of, percentiles, rows_table
from codemode_server.app import App
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import Tree
from codemode_server.config import load
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.executions.preflight.preflight import Preflight
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from tests.vocabulary import tokens_of


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--attacks"]:
        return attacks.main(arguments[1:])
    attacked = attacks.costs(list(attack_table.ATTACKS))
    rows = [
        *sizes.rows(),
        *start.rows(),
        tools_in_context(),
        *discovery(),
        *peers.rows(),
        *anyio.run(nodes.rows),
        *anyio.run(packages.rows),
        *counted(),
        anyio.run(many_rows),
        anyio.run(checking),
        *under_attack(attacked),
    ]
    print(rows_table(rows))
    report = ["# Results\n", measured_by("make bench"), "Times are of a shared machine: read the ratios.\n"]
    (HERE / "RESULTS.md").write_text("\n".join([*report, rows_table(rows), attacks.markdown(attacked)]))
    return 1 if any(row.is_met is False for row in rows) else 0


def tools_in_context() -> Row:
    size = tokens_of(json.dumps(definitions(Settings())) + INSTRUCTIONS)
    return Row(
        "the four tools and the instructions in the model's context", f"{size:,} tokens", "under 1,200", size < 1_200
    )


def discovery() -> list[Row]:
    catalog = Catalog.build(_listings(60, 50))
    levels = RankerStack()
    started = time.perf_counter()
    levels.index(collections(catalog))
    built = time.perf_counter() - started
    queries = ("create an issue in a repository", "list unread messages", "delete record", "export as pdf", "weather")
    names = [server.name for server in catalog.servers]
    works: dict[str, Callable[[int], object]] = {
        "list_dir": lambda n: Tree(catalog).list_dir(f"/servers/{names[n % len(names)]}").text,
        "read_tool": lambda n: Tree(catalog).read_tool(catalog.servers[n % 60].tools[n % 50].path)[0].text,
        "search_tools": lambda n: search_tools(catalog, levels, queries[n % len(queries)]).text,
    }
    at = f"{catalog.tool_count:,} tools"
    rows = [Row(f"index of {at} built", f"{built:.2f} s", "under 1 s", built < 1)]
    for name, work in works.items():
        times = [milliseconds_of(lambda number=number, work=work: work(number)) for number in range(300)]  # type: ignore[misc]
        rows.append(Row(f"{name} at {at}", percentiles(times), "p50 under 10 ms", statistics.median(times) < 10))
    return rows


def counted() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        one, call, two = anyio.run(function_calls.count, Path(folder)).values()
    further = two.calls - call.calls
    return [
        Row("function calls of ours: `1 + 1`", f"{one.calls:,}", "under 800", one.calls < 800),
        Row("function calls of ours: a program with one call", f"{call.calls:,}", "under 1,000", call.calls < 1_000),
        Row("function calls of ours: each further call", f"{further:,}"),
        Row(
            "wake-ups of the event loop, those for the client included: `1 + 1`, a further call",
            f"{one.wake_ups}, {two.wake_ups - call.wake_ups}",
        ),
    ]


async def many_rows() -> Row:
    code = (
        "from servers.bench import rows\n[r for r in rows() if r['status'] == 'pending' and r['amount'] > 13_000][:5]"
    )
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(Path(folder), {"bench": stdio_upstream()})
        async with App.open(load(config)) as app, Client(app.front) as client:

            async def run(code: str) -> None:
                answer = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=120)
                assert not answer.is_error, answer.content

            await client.list_tools()
            await app.pool.wait_settled(30)
            await run("1 + 1")
            before = peak = resident_mib(os.getpid())
            times = []
            for _ in range(5):
                times.append(await milliseconds(lambda: run(code)))
                peak = max(peak, resident_mib(os.getpid()))
    seconds, more_mib = statistics.median(times) / 1e3, peak - before
    what = "10,000 rows through a program, only 5 reach the model"
    measured = f"{seconds:.2f} s, {more_mib:.0f} MiB more on the host"
    return Row(what, measured, "under 1 s, under 64 MiB", seconds < 1 and more_mib < 64)


async def checking(runs: int = 100) -> Row:
    """The check before a program runs."""
    catalog = Catalog.build(_listings(60, 50))

    async def listed() -> None:
        return None

    program = (HERE / "program.txt").read_text()
    preflight = Preflight(catalog=lambda: catalog, listed=listed, config=LiveConfig())
    first = await milliseconds(lambda: preflight.check(program))
    # Each a little other than the last, as programs are.
    programs = [program.replace("report", f"report_{number}") for number in range(runs)]
    times = [await milliseconds(lambda code=code: preflight.check(code)) for code in programs]  # type: ignore[misc]
    what = f"check of a program of {len(program.splitlines())} lines before it runs, at {catalog.tool_count:,} tools"
    measured = f"{percentiles(times)}; the first {first:.0f} ms"
    return Row(what, measured, "p50 under 50 ms", statistics.median(times) < 50)


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


def _listings(servers: int, tools: int) -> list[UpstreamListing]:
    """Made-up servers with tools of the usual size."""
    verbs = ("create", "list", "get", "update", "delete", "search", "export", "archive", "assign", "merge")
    nouns = ("issue", "message", "record", "report", "invoice", "repository", "channel", "contact", "page", "ticket")
    texts = {
        "owner": "Account that owns it, as in the address",
        "identifier": "Its identifier",
        "filter": "Expression that narrows the result",
        "limit": "Most results to give, as a decimal number",
        "state": "Only those in this state",
    }
    properties = {name: {"type": "string", "description": text} for name, text in texts.items()}
    schema = {"type": "object", "properties": properties, "required": ["owner"]}

    def tool(server: int, number: int) -> ToolDefinition:
        verb, noun = verbs[number % 10], nouns[(number // 10 + server) % 10]
        text = f"{verb.capitalize()} a {noun} of the workspace. Needs the right to {verb} it; gives it as it is."
        return ToolDefinition(f"{verb}_{noun}_{number}", text, None, schema)

    return [
        UpstreamListing(
            f"server{server}",
            UpstreamState.READY,
            tuple(tool(server, number) for number in range(tools)),
            f"Service number {server}",
        )
        for server in range(servers)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
