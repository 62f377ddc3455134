"""Calls of real servers' tools, made from their schemas: the right ones pass, and each one broken in one way is found
at its line, with the right name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from codemode_server.calls.arguments import check_arguments
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.catalog.json_schema import SchemaReader, branches_of, enum_of, kinds_of, properties_of, required_of
from codemode_server.domain.errors import InvalidArguments

from .kit import lines, preflight, real_catalog

CALLS = 120


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return real_catalog()


def made(schema: Any, reader: SchemaReader, chance: random.Random, depth: int = 0) -> Any:
    """A value that the schema takes, most likely."""
    flat = reader.flat(schema)
    if "default" in flat and flat["default"] is not None:
        return flat["default"]
    if values := enum_of(flat):
        return chance.choice(values)
    if branches := branches_of(flat):
        return made(branches[0], reader, chance, depth + 1)
    kind = next((kind for kind in kinds_of(flat) if kind != "null"), "string")
    if kind == "object" and depth < 5:
        return {
            name: made(properties_of(flat)[name], reader, chance, depth + 1)
            for name in required_of(flat)
            if name in properties_of(flat)
        }
    if kind == "array" and depth < 5:
        return [made(flat.get("items"), reader, chance, depth + 1) for _ in range(int(flat.get("minItems", 1)))]
    low = flat.get("minimum", 3)
    scalars: dict[str, Any] = {"integer": int(low), "number": float(low), "boolean": True, "object": {}, "array": []}
    return scalars.get(kind, "2026-01-01T00:00:00Z" if flat.get("format") == "date-time" else "some text")


@lru_cache(maxsize=1)
def right_calls() -> list[tuple[Tool, dict[str, Any]]]:
    """Arguments that the gateway takes, by Python name, of tools with a name that is theirs alone."""
    chance = random.Random(7)
    tools = [tool for tool in real_catalog().tools() if tool.parameters]
    chance.shuffle(tools)
    found = []
    for tool in tools:
        reader = SchemaReader(tool.definition.input_schema)
        given = [it for it in tool.parameters if it.is_required or chance.random() < 0.3]
        raw = {it.raw_name: made(it.schema, reader, chance) for it in given}
        try:
            check_arguments(tool, raw)
        except InvalidArguments:
            continue
        found.append((tool, {it.name: raw[it.raw_name] for it in given}))
        if len(found) == CALLS:
            break
    return found


def keywords(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def program(tool: Tool, call: str) -> str:
    return f"import json\n{tool.import_line}\nresult = {tool.name}({call})\nprint(json.dumps(result))"


async def test_no_right_call_is_found_wrong_in_whatever_way_it_is_written(catalog: Catalog) -> None:
    calls = right_calls()
    assert len(calls) == CALLS
    async with preflight(catalog) as check:
        for tool, arguments in calls:
            raw = {it.name: it.raw_name for it in tool.parameters}
            for call in (
                keywords(arguments),
                repr({raw[name]: value for name, value in arguments.items()}),
                ", ".join(repr(arguments[it.name]) for it in tool.parameters if it.is_required),
            ):
                if not call and any(it.is_required for it in tool.parameters):
                    continue
                found = await check.check(program(tool, call))
                assert not lines((*found.errors, *found.warnings)), f"{tool.path}: {call}"


def broken(tool: Tool, arguments: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Programs with one mistake each: what it is, the program, and what has to be said of it at line 3 (or 2)."""
    name = tool.name[:-1] + ("x" if tool.name[-1] != "x" else "y")
    code = f"import json\nfrom servers.{tool.server} import {name}\n{name}({keywords(arguments)})"
    yield "tool", code, f'"{name}"'
    if arguments:
        old = max(arguments, key=len)
        wrong = {("zz_" + old if key == old else key): value for key, value in arguments.items()}
        yield "parameter", program(tool, keywords(wrong)), f"'zz_{old}'"
    required = [it for it in tool.parameters if it.is_required]
    if required:
        left = {key: value for key, value in arguments.items() if key != required[0].name}
        yield "missing", program(tool, keywords(left)), f"is missing '{required[0].name}'"
    reader = SchemaReader(tool.definition.input_schema)
    for it in tool.parameters:
        flat = reader.flat(it.schema)
        if it.name in arguments and flat.get("type") in ("integer", "number", "boolean") and not enum_of(flat):
            wrong = {**arguments, it.name: "five"}
            yield "constant", program(tool, keywords(wrong)), f"'{it.raw_name}' must be"
            break


async def test_each_call_that_is_broken_in_one_way_is_found_at_its_line_by_name(catalog: Catalog) -> None:
    seen: dict[str, int] = {}
    known = {tool.import_line for tool in catalog.tools()}
    async with preflight(catalog) as check:
        for tool, arguments in right_calls():
            if any(it.name.startswith("zz_") for it in tool.parameters):
                continue
            for kind, code, told in broken(tool, arguments):
                if kind == "tool" and code.split("\n")[1] in known:
                    continue
                found = await check.check(code)
                line = 2 if kind == "tool" else 3
                assert found.errors, f"{kind}, {tool.path}:\n{code}"
                assert found.errors[0].line == line
                assert told in found.errors[0].message, f"{kind}, {tool.path}: {found.errors[0].message}"
                seen[kind] = seen.get(kind, 0) + 1
    assert seen["tool"] > 100
    assert seen["parameter"] > 90
    assert seen["missing"] > 60
    assert seen["constant"] > 10
