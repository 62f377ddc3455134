"""What stubs say of results, on twenty tasks for eleven real servers: writes benchmarks/TYPES.md.

For each style of stub: how many of the keys that a task's program uses are in its types before the first call, and how
many tokens a model reads to know them.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import bpe_openai
from mcp import Client

from benchmarks.result_types.world import World, configuration, make_world
from codemode_server.app import App
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.catalog.tree import read_tool
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from scripts.npm import Unavailable

HERE = Path(__file__).parent
REPORT = HERE.parent / "TYPES.md"
STYLES = ("none", "declared", "one call", "learned")
_SETTLE_SECONDS = 120
_ENCODING = bpe_openai.get_encoding("o200k_base")
_HEAD = """\
# What stubs say of results

`make bench-types`: twenty tasks on eleven real MCP servers, offline. The programs are in `result_types/tasks`, written
as a model writes them, and each is run in the sandbox.

- A *key* is one that a program asks a result for by name. What the program's own SQL names needs no type.
- *none*: stubs without types of results. *declared*: types from `outputSchema` alone. *one call*: after one earlier
  call of each tool. *learned*: after a few of each (`result_types/calls.json`).
- *known*: keys that are in the types of the task's tools. *read*: tokens (o200k) of `read_tool` for these tools.
"""


async def measure(folder: Path) -> str:
    world = make_world(folder)
    tasks = {path.stem: path.read_text() for path in sorted((HERE / "tasks").glob("t*.py"))}
    async with App.open(load(configuration(world))) as app, Client(app.front) as client:
        await client.list_tools()
        app.connect()
        await app.pool.wait_settled(_SETTLE_SECONDS)
        catalogs = await _catalogs(app, world)
        for name, code in tasks.items():
            arguments = {"code": world.filled(code)}
            result = await client.call_tool("execute_code", arguments, read_timeout_seconds=120)
            if (result.structured_content or {}).get("status") != "succeeded":
                raise RuntimeError(f"{name}: {result.content}")
    rows = [["task", "keys", *(f"known: {style}" for style in STYLES), *(f"read: {style}" for style in STYLES)]]
    sums = [0] * (1 + 2 * len(STYLES))
    for name, code in tasks.items():
        figures = _figures(code, catalogs)
        sums = [one + other for one, other in zip(sums, figures, strict=True)]
        rows.append([name[1:].replace("_", " "), *(f"{figure:,}" for figure in figures)])
    rows.append([f"**all {len(tasks)}**", *(f"{figure:,}" for figure in sums)])
    rows.insert(1, ["---"] * len(rows[0]))
    return f"{_HEAD}\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


async def _catalogs(app: App, world: World) -> list[Catalog]:
    """One for each style."""
    listings = [server.listing for server in app.catalog().servers]
    bare = [
        dataclasses.replace(one, tools=tuple(dataclasses.replace(tool, output_schema=None) for tool in one.tools))
        for one in listings
    ]
    catalogs = [Catalog.build(bare), Catalog.build(listings)]
    context, execution = Caller.of(Session("types"), app.config), ExecutionId("types")
    record = ExecutionRecord(
        execution, context.principal, context.session, IsolationLevel.WASM, ExecutionStatus.RUNNING, time.time()
    )
    await app.stores.journal.begin_execution(record)
    calls = ExecutionCalls(execution, context)
    corpus: list[dict[str, Any]] = json.loads((HERE / "calls.json").read_text())
    for some in (slice(1), slice(1, None)):
        for one in corpus:
            for arguments in one["arguments"][some]:
                await app.gateway.call(calls, one["server"], one["tool"], world.filled(arguments))
        catalogs.append(app.catalog())
    return catalogs


def _figures(code: str, catalogs: list[Catalog]) -> list[int]:
    """The number of keys, then for each style the known ones, then for each style the tokens."""
    keys = set(_keys(code))
    imported = re.findall(r"^from servers\.(\w+) import (.+)$", code, re.MULTILINE)
    names = [(server, tool) for server, tools in imported for tool in re.split(r"\s*,\s*", tools)]
    every = [[catalog.tool(*name) for name in names] for catalog in catalogs]
    known = [len(keys & {key for tool in tools for key in _result_keys(tool)}) for tools in every]
    texts = [
        "\n\n".join(part.text for part in read_tool(catalog, ", ".join(tool.path for tool in tools)))
        for catalog, tools in zip(catalogs, every, strict=True)
    ]
    return [len(keys), *known, *(len(_ENCODING.encode(text)) for text in texts)]


def _keys(code: str) -> Iterator[str]:
    """The keys that a program takes from dicts and that its SQL does not name."""
    nodes = list(ast.walk(ast.parse(code)))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    sql = {word for text in texts if "SELECT" in text for word in re.findall(r"\w+", text)}
    for node in nodes:
        match node:
            case (
                ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load())
                | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_])
                | ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In()])
            ) if key not in sql:
                yield key


def _result_keys(tool: Tool) -> Iterator[str]:
    """The keys in the type of a tool's result, at any depth."""
    classes = tool.stub.classes
    waiting = list(tool.returned.type.classes)
    for name in waiting:  # grows as it goes
        for key, kind in classes[name]:
            yield key.removesuffix("?")
            waiting += [word for word in re.findall(r"\w+", kind) if word in classes and word not in waiting]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = anyio.run(measure, Path(folder))
    REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except* Unavailable as reasons:
        sys.exit(f"bench-types: {reasons.exceptions[0]}")
