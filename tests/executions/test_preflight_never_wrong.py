"""No program that works is stopped: not those that models wrote, not those of our own tests and documents."""

from __future__ import annotations

import ast
import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition
from codemode_server.executions.preflight.reading import MAX_CHARACTERS
from tests.sandbox import lab

from .kit import OFFICE, SHARED, lines, listing, preflight

SCHEMAS: dict[str, Any] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "list[str]": {"type": "array", "items": {"type": "string"}},
    "dict[str, Any]": {"type": "object"},
}


def lab_catalog() -> Catalog:
    """The tools of the sandbox's tests."""
    tools: dict[str, list[ToolDefinition]] = {}
    for (server, name), source in lab.STUBS.items():
        function = ast.parse(source).body[0]
        assert isinstance(function, ast.FunctionDef)
        arguments = function.args.args
        names = [lab.RENAMED.get(name, {}).get(argument.arg, argument.arg) for argument in arguments]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                raw: SCHEMAS.get(ast.unparse(argument.annotation or ast.Name("Any")), {})
                for raw, argument in zip(names, arguments, strict=True)
            },
            "required": names[: len(names) - len(function.args.defaults)],
        }
        if function.args.kwarg:
            schema = {"type": "object", "additionalProperties": True}
        tools.setdefault(server, []).append(ToolDefinition(name, "", None, schema))
    return Catalog.build(listing(server, *found) for server, found in tools.items())


async def stopped(catalog: Catalog, programs: Iterator[tuple[str, str]]) -> tuple[int, list[str]]:
    """How many there are, and what is wrongly held against them."""
    count, found = 0, []
    async with preflight(catalog) as check:
        for name, code in programs:
            count += 1
            found += [f"{name}: {line}" for line in lines((await check.check(code)).errors)]
    return count, found


async def test_programs_as_models_write_them_run() -> None:
    path = SHARED / "programs.py"
    if not path.exists():
        pytest.skip(f"no {path}")
    spec = importlib.util.spec_from_file_location("programs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count, found = await stopped(lab_catalog(), iter(module.PROGRAMS))
    assert found == []
    assert count > 50


ASYNC = """
import asyncio
from contextlib import asynccontextmanager
from servers.github import create_issue, get_issue, list_issues

semaphore = asyncio.Semaphore(3)

@asynccontextmanager
async def slot():
    async with semaphore:
        yield

async def pages(repo):
    for state in ("open", "closed"):
        for issue in await list_issues(repo, state=state):
            yield issue

async def one(number):
    async with slot():
        issue = await get_issue("a", number)
        return issue["title"], issue.get("labels")

async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(n)) for n in range(3)]
        direct = group.create_task(get_issue("a", 9))
    found = [i async for i in pages("a") if i["number"] > 1]
    pairs = await asyncio.gather(*(one(n) for n in range(2)), return_exceptions=True)
    done, _ = await asyncio.wait([asyncio.create_task(one(4))], timeout=5)
    try:
        late = await asyncio.wait_for(get_issue("a", 5), 3)
    except* ValueError:
        late = None
    forgotten = get_issue("a", 6)
    print(forgotten["title"], direct.result()["title"], [t.result()[0] for t in tasks], len(found), pairs, done, late)
    made = await create_issue({"owner": "o", "title": direct.result()["title"]})
    return made["number"]

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_tools_in_all_ways_of_asyncio_are_no_reason_to_stop_or_to_warn() -> None:
    async with preflight() as check:
        found = await check.check(ASYNC)
    assert lines((*found.errors, *found.warnings)) == []


STANDARD = ("ast", "csv", "dataclasses", "functools", "heapq", "json/decoder", "shlex", "textwrap", "asyncio/queues")


async def test_modules_of_the_standard_library_are_not_found_wrong() -> None:
    """Python by people who know it, in all its ways; a call of a tool in front makes programs of them."""
    call = "from servers.github import get_issue as a_tool\na_tool('a', 1)\n"
    files = [Path(sysconfig.get_path("stdlib")) / f"{name}.py" for name in STANDARD]
    programs = (
        (path.name, call + path.read_text().replace("from __future__ import", "from x import")) for path in files
    )
    count, found = await stopped(OFFICE, (program for program in programs if len(program[1]) < MAX_CHARACTERS))
    assert found == []
    assert count > 7
