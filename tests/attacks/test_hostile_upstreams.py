"""Threat: an upstream that lies in names, schemas, descriptions and results, or never stops talking.

Rule: it can harm nobody but itself. Its texts reach the model cleaned and bounded, nothing in them becomes code, no
work on them is without bound, and while it misbehaves other upstreams and the host are served as before.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.kit import arrived, hostile
from tests.behaviour.product import Host, configuration, in_memory, office
from tests.catalog.checks import only_declares
from tests.fuzz.test_stubs import only_types_and_literals

pytestmark = pytest.mark.slow

UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e0fff]")


def with_github(folder: Path, kind: str, **settings: Any) -> Path:
    return configuration(folder, {**hostile(folder, kind, **settings), **office(folder, "github")})


async def others_work(host: Host) -> None:
    """The positive control: another upstream is called, and answers."""
    answer = await host.run("from servers.github import list_issues\nlen(list_issues(repo='a/b'))")
    assert answer.value == 5


async def test_no_text_of_an_upstream_becomes_code(tmp_path: Path) -> None:
    """Each stub declares types and functions, reads nothing but types and calls nothing but `tool` and `TypedDict`."""
    async with in_memory(with_github(tmp_path, "fuzz")) as host:
        await others_work(host)
        listed = (await host.call("list_dir", path="/servers/fuzz")).text
        pages = int((re.findall(r"page 1 of (\d+)", listed) or ["1"])[0])
        for page in range(2, pages + 1):
            listed += "\n" + (await host.call("list_dir", path=f"/servers/fuzz?page={page}")).text
        names = re.findall(r"^(\S+)\.py\b", listed, re.MULTILINE)
        assert len(names) > 60
        assert not UNFIT.search(listed.replace("\n", ""))
        for name in names:
            text = (await host.call("read_tool", path=f"/servers/fuzz/{name}.py")).text
            assert not UNFIT.search(text), name
            source = text.partition("\n")[2]
            assert only_declares(source), name
            assert only_types_and_literals(source), name
        found = await host.call("search_tools", query="escaped red", detail_level="full", limit=100)
        assert not UNFIT.search(found.text)
        program = f"""
import importlib, os
bad = []
for name in {names!r}:
    try:
        module = importlib.import_module("servers.fuzz." + name)
        callable(getattr(module, name)) or bad.append(name)
        if "escaped" in vars(module): bad.append(name)
    except Exception as error:
        bad.append([name, repr(error)])
[bad, hasattr(os, "escaped")]
"""
        assert (await host.run(program)).value == [[], False]


async def test_results_reach_the_model_without_control_characters(tmp_path: Path) -> None:
    async with in_memory(with_github(tmp_path, "plain")) as host:
        for program in ("act(how='controls')", "print(act(how='controls'))", "{'k': [act(how='controls')]}"):
            answer = await host.run(f"from servers.plain import act\n{program}")
            assert answer.content["status"] == "succeeded"
            assert "red" in answer.text
            assert not UNFIT.search(answer.text)
            assert not UNFIT.search(repr(answer.content))
        answer = await host.run("from servers.plain import act\nraise ValueError(act(how='controls'))")
        assert not UNFIT.search(answer.text)


BOMBS = {
    "bomb": "'a'",  # references that fan out
    "regex": "{'a' * 40 + '!': 1}",  # a regular expression behind additionalProperties
    "dialect": "'a' * 40 + '!'",  # a regular expression behind another dialect
    "unique": "[{'a': n} for n in range(15_000)]",
    "enum": "'v29999'",
    "itself": "{'x': {'x': {}}}",
    "deep": "[1]",
    "novel": "1",  # its description has 5 MB
}
"""Tool and argument."""


async def test_a_schema_cannot_hold_up_the_host(tmp_path: Path) -> None:
    async with in_memory(with_github(tmp_path, "heavy")) as host:
        for tool, argument in BOMBS.items():
            answer = await host.run(f"from servers.heavy import {tool}\n{tool}(x={argument})")
            assert answer.value == "pong", tool
            assert len((await host.call("read_tool", path=f"/servers/heavy/{tool}.py")).text) < 100_000, tool
        await others_work(host)
    assert arrived(tmp_path, "heavy") == list(BOMBS)


async def test_ten_thousand_tools_are_found_and_called(tmp_path: Path) -> None:
    async with in_memory(with_github(tmp_path, "many")) as host:
        assert len((await host.call("list_dir", path="/servers/many")).text) < 20_000
        found = await host.call("search_tools", query="tool number 7777", limit=3)
        assert "tool_number_7777" in found.text
        answer = await host.run("from servers.many import tool_number_7777\ntool_number_7777()")
        assert answer.value == "pong"
        answer = await host.run("from servers.many import tool_number_77777")
        assert answer.error["type"] == "CheckFailed"
        assert 'no tool "tool_number_77777" in servers.many; nearest: tool_number_' in answer.error["message"]
        await others_work(host)


UNFIT_RESULTS = ("nested", "huge", "too deep to read")


async def test_a_result_that_cannot_be_given_is_an_error_of_that_call(tmp_path: Path) -> None:
    async with in_memory(with_github(tmp_path, "plain")) as host:
        program = f"""
import asyncio, codemode
async def kind_of(how):
    try:
        return await codemode.call("plain", "act", how=how)
    except codemode.ToolError as error:
        return error.kind
await asyncio.gather(*[kind_of(how) for how in {UNFIT_RESULTS!r}])
"""
        assert (await host.run(program)).value == ["result_too_large"] * len(UNFIT_RESULTS)
        await others_work(host)


async def test_a_storm_of_notifications_leaves_time_for_everything_else(tmp_path: Path) -> None:
    """`list_changed`, progress, log messages and stderr without a pause."""
    async with in_memory(with_github(tmp_path, "storm")) as host:
        with anyio.fail_after(60):
            for _ in range(100):
                assert "storm" in (await host.call("list_dir", path="/servers")).text
                await anyio.sleep(0.02)  # in which the storm comes
        await others_work(host)
        answer = await host.run("from servers.storm import act\nact(how='ping')")
        assert answer.value == "pong"
