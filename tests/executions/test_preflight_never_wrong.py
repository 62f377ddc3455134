"""No program that works is stopped: not those that models wrote, not those of our own tests and documents."""

from __future__ import annotations

import ast
import importlib.util
import re
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

ROOT = Path(__file__).parents[2]
SCHEMAS: dict[str, Any] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "list[str]": {"type": "array", "items": {"type": "string"}},
    "dict[str, Any]": {"type": "object"},
}
MEANT_TO_FAIL = ("ecko", "gitub", "nope")
"""Words of programs whose failure is the test."""


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


def programs_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in a file of tests that are whole programs with tools."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            imports = re.findall(r"^\s*(?:from|import) servers\.?(\w*)", node.value, re.MULTILINE)
            if imports and set(imports) <= {"", "github", "google_drive"}:
                yield node.lineno, node.value


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


async def test_programs_of_the_sandbox_s_tests_run() -> None:
    programs = (
        (f"{path.name}:{line}", code)
        for path in sorted((ROOT / "tests" / "sandbox").glob("test_*.py"))
        for line, code in programs_of(path)
        if not any(word in code for word in MEANT_TO_FAIL)
    )
    count, found = await stopped(lab_catalog(), programs)
    # Some of the texts are the end of a program; their imports stand elsewhere.
    elsewhere = (
        "is not defined; each program starts fresh",
        "is not defined; write: from codemode import show",
        "import echo",
    )
    assert [line for line in found if not any(words in line for words in elsewhere)] == []
    assert count > 25


LANGUAGE = {
    "classes": """
from dataclasses import dataclass, field
from servers.github import get_issue, list_issues

@dataclass
class Report:
    repo: str
    rows: list = field(default_factory=list)
    total: "int | None" = None

    def __post_init__(self):
        self.rows += [self.row(issue) for issue in list_issues(self.repo, state="open")]

    @staticmethod
    def row(issue):
        return {"n": issue["number"], "t": issue["title"].upper(), "l": issue.get("labels", [])}

    @property
    def first(self):
        return self.rows[0] if self.rows else None

report = Report("a/b")
report.total = len(report.rows)
report.first or get_issue("a/b", 1)["title"]
""",
    "closures and generators": """
import functools, itertools, re
from servers import github as gh

counter = 0
def counted(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        global counter
        counter += 1
        return function(*args, **kwargs)
    return inner

@counted
def titles(repo, *, limit=3):
    seen = set()
    def add(title):
        nonlocal seen
        seen |= {title}
        return title
    for issue in itertools.islice(gh.list_issues(repo), limit):
        yield add(issue["title"])

words = [w for t in titles("a") if (m := re.match(r"(\\w+)", t)) for w in m.groups()]
by = {k: list(g) for k, g in itertools.groupby(sorted(words), key=lambda w: w[:1])}
get = functools.partial(gh.get_issue, "a")
print(get(1)["title"], *map(lambda n: gh.get_issue("a", n)["number"], range(2)))
print(f"{by!r:>10} {counter=} {gh.get_issue('a', 2)['title']:{10}}")
""",
    "async": """
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
""",
    "names": """
from __future__ import annotations
from typing import TYPE_CHECKING, TypedDict
import sys as system, os.path
from servers.github import search as find, update
if TYPE_CHECKING:
    from nowhere import Unknown
class Row(TypedDict, total=False):
    a: int
def f(x: Unknown, *rest: Row, **named: "Missing") -> Unknown:
    id, list, type = x, rest, named
    del id
    return find(query=str(type))
try:
    import numpy as np
except ImportError:
    np = None
for i, (a, *b) in enumerate([(1, 2)]):
    pass
else:
    print(i, a, b)
with open("/tmp/x", "w") as out, open(os.path.devnull) as null:
    print(update({"k": [1]}, key="x"), file=out)
lines = [line for line in "ab"]
match lines:
    case [first, *_]:
        print(first)
    case {"x": value} | {"y": value}:
        print(value)
    case str() as text:
        print(text)
print(f(1), np, system.argv, __name__, __doc__)
""",
    "results are changed": """
from servers.github import get_issue, list_issues
issues = list_issues("a", labels=["x"], limit=5)
for issue in issues:
    issue["age"] = 3
    issue |= {"kind": "bug"}
    issue.setdefault("owner", None)
print(sum(i["age"] for i in issues), issues[0]["kind"], issues[0]["owner"])
index = {i["number"]: i for i in issues}
index[1]["seen"] = True
print(index[1]["seen"], sorted(issues, key=lambda i: (-i["age"], i["title"])))
one = {**get_issue("a", 1), "extra": 1}
print(one["extra"], one.pop("extra"), max(issues, key=lambda i: len(i.get("labels") or []))["title"])
head, *tail = issues
print(head["title"], [t["title"] for t in tail], issues[-1:], issues + [one], len(issues) * 2)
""",
}


@pytest.mark.parametrize("code", LANGUAGE.values(), ids=LANGUAGE)
async def test_what_the_language_can_do_is_no_reason_to_stop_or_to_warn(code: str) -> None:
    async with preflight() as check:
        found = await check.check(code)
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
