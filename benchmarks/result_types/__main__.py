"""What stubs say of results, on ten tasks for six real servers: writes benchmarks/TYPES.md.

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
from mcp import Client

from benchmarks.report import table, tokens
from codemode_server.app import App
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.catalog.tree import Tree
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from scripts.npm import Unavailable
from scripts.real_servers import entries

HERE = Path(__file__).parent
REPORT = HERE.parent / "TYPES.md"
STYLES = ("none", "declared", "one call", "learned")
_SETTLE_SECONDS = 120
_HEAD = """\
# What stubs say of results

`make bench-types`: ten tasks on six real MCP servers, offline. The programs are in `result_types/tasks`, written
as a model writes them, and each is run in the sandbox.

- A *key* is one that a program asks a result for by name. What the program's own SQL names needs no type.
- *none*: stubs without types of results. *declared*: types from `outputSchema` alone. *one call*: after one earlier
  call of each tool. *learned*: after a few of each (`result_types/calls.json`).
- *known*: keys that are in the types of the task's tools. *read*: tokens (o200k) of `read_tool` for these tools.
"""


async def measure(folder: Path) -> str:
    config = _world(folder)
    programs = {path.stem: _filled(folder, path) for path in sorted((HERE / "tasks").glob("t*.py"))}
    async with App.open(load(config)) as app, Client(app.front) as client:
        await client.list_tools()
        app.connect()
        await app.pool.wait_settled(_SETTLE_SECONDS)
        catalogs = await _catalogs(app, json.loads(_filled(folder, HERE / "calls.json")))
        for name, code in programs.items():
            result = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=120)
            if (result.structured_content or {}).get("status") != "succeeded":
                raise RuntimeError(f"{name}: {result.content}")
    figures = {name[1:].replace("_", " "): _figures(code, catalogs) for name, code in programs.items()}
    figures[f"**all {len(figures)}**"] = [sum(column) for column in zip(*figures.values(), strict=True)]
    heads = ["task", "keys", *(f"known: {style}" for style in STYLES), *(f"read: {style}" for style in STYLES)]
    return f"{_HEAD}\n{table(heads, [[name, *(f'{each:,}' for each in row)] for name, row in figures.items()])}"


def _world(folder: Path) -> Path:
    """What the servers work on, the same each time, and the configuration that starts them."""
    lines = (
        f"2026-09-{1 + n // 4:02}T{8 + n % 4:02}:00:00Z {('checkout', 'stock', 'mailer')[n % 3]} request {n} "
        f"took {37 * n % 900} ms\n"
        for n in range(60)
    )
    (folder / "files").mkdir()
    (folder / "files" / "app.log").write_text("".join(lines))
    nodes: list[dict[str, Any]] = [
        {"type": "entity", "name": name, "entityType": kind, "observations": observations}
        for kind, name, observations in (
            ("person", "Ada Byron", ["writes from ada@example.com", "likes tests"]),
            ("person", "Grace Hopper", ["writes from grace@example.com"]),
            ("service", "checkout", ["takes payments"]),
            ("service", "stock", ["counts the lamps"]),
            ("service", "mailer", ["sends letters"]),
        )
    ]
    nodes += [
        {"type": "relation", "from": source, "to": target, "relationType": kind}
        for source, kind, target in (
            ("Ada Byron", "owns", "checkout"),
            ("Grace Hopper", "owns", "stock"),
            ("checkout", "calls", "mailer"),
        )
    ]
    (folder / "memory.jsonl").write_text("\n".join(map(json.dumps, nodes)))
    config = folder / "upstream.yaml"
    settings = {
        "servers": entries(folder, ("calc", "everything", "filesystem", "memory", "orders", "time")),
        "state": {"dir": str(folder / "state")},
        "sandbox": {"backend": "wasm"},
        "search": {"ranker": "lexical"},
        "results": {"structured_content": True},
    }
    config.write_text(json.dumps(settings))
    return config


def _filled(folder: Path, path: Path) -> str:
    return path.read_text().replace("{files}", str(folder / "files"))


async def _catalogs(app: App, corpus: list[dict[str, Any]]) -> list[Catalog]:
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
    for some in (slice(1), slice(1, None)):
        for one in corpus:
            for arguments in one["arguments"][some]:
                await app.gateway.call(calls, one["server"], one["tool"], arguments)
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
        "\n\n".join(part.text for part in Tree(catalog).read_tool(", ".join(tool.path for tool in tools)))
        for catalog, tools in zip(catalogs, every, strict=True)
    ]
    return [len(keys), *known, *(tokens(text) for text in texts)]


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
