"""No program that works is stopped: not those that models wrote, not those of our own tests and documents."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.model import ToolDefinition
from tests.sandbox import lab

from .kit import SHARED, lines, listing, preflight

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
    assert [line for line in found if not line.endswith("is not defined")] == []
    assert count > 25


async def test_programs_of_the_documents_are_not_found_wrong_but_for_servers_that_the_reader_has() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = (
        (page.name, code)
        for page in pages
        for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    )
    _, found = await stopped(Catalog(), blocks)
    assert [line for line in found if "no server" not in line] == []
