"""Threat: a program, or an upstream, finds a spelling of a denied tool that no rule matches.

Rule: what is judged is the tool that was found, under all names it has, not the words of the call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks.kit import RAW, arrived, hostile, recorded
from tests.behaviour.product import Host, configuration, in_memory

RAW_NAMES = ["a-b", "a_b", "Drop", "get[1]", "get1", "issues/delete", "re\u0301sume\u0301-x", "\uff44elete", "safe"]


async def reached(folder: Path, host: Host, spellings: list[str]) -> list[str]:
    """Call by each spelling, on the raw channel and by the client's function; gives what arrived."""
    code = (
        RAW
        + f"""
import codemode
from client import call_mcp_tool
for number, name in enumerate({spellings!r}, start=1):
    call(number, "names", name)
for name in {spellings!r}:
    for attempt in (lambda: codemode.call("names", name), lambda: call_mcp_tool("mcp__names__" + name)):
        try:
            attempt()
        except codemode.ToolError:
            pass
"""
    )
    # The frames above took ids of the guest's own.
    code = code.replace(
        "import codemode\n",
        "import codemode\ngc.unfreeze()\n"
        "for o in gc.get_objects():\n    if type(o).__name__ == 'Link': o._last_id = 10**6\n",
    )
    assert (await host.run(code)).content["status"] == "succeeded"
    return sorted(set(arrived(folder, "names")))


async def test_without_rules_each_tool_is_reached_by_its_names(tmp_path: Path) -> None:
    """The positive control: all these spellings are understood."""
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "names"))) as host:
        assert await reached(tmp_path, host, RAW_NAMES) == sorted(RAW_NAMES)


@pytest.mark.evasion
@pytest.mark.parametrize(
    ("rule", "kept_out", "spellings"),
    [
        pytest.param("names/Drop", ["Drop"], ["Drop", "drop", "DROP", "Drop ", "names/Drop", "Drop.py"], id="case"),
        pytest.param("names/a_b", ["a_b", "a-b"], ["a-b", "a_b"], id="a name that two have"),
        pytest.param("names/get[1]", ["get[1]", "get1"], ["get[1]", "get_1", "get1"], id="a name like a glob"),
        pytest.param("names/delete", ["\uff44elete"], ["\uff44elete", "delete"], id="width"),
        pytest.param("n*/*", RAW_NAMES, RAW_NAMES, id="globs"),
    ],
)
async def test_a_denied_tool_is_reached_by_no_spelling(
    tmp_path: Path, rule: str, kept_out: list[str], spellings: list[str]
) -> None:
    permissions = {"rules": [{"deny": rule}]}
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "names"), permissions=permissions)) as host:
        names = (await host.call("list_dir", path="/servers/names")).text
        python = [line.split()[0].removesuffix(".py") for line in names.splitlines()[1:]]
        came = await reached(tmp_path, host, [*spellings, *RAW_NAMES, *python])
    assert came == sorted(set(RAW_NAMES) - set(kept_out))
    assert {row[1] for row in recorded(tmp_path) if row[3] == "refused"} == set(kept_out)


@pytest.mark.evasion
async def test_servers_whose_names_collide_are_told_apart(tmp_path: Path) -> None:
    """`a.b`, `a-b` and `A_B` are all `a_b` to Python; a rule for one is no rule for another, nor a hole."""
    servers: dict[str, Any] = {}
    for name in ("a.b", "a-b", "A_B"):
        servers |= hostile(tmp_path, "plain", name=name)
    permissions = {"default": "deny", "rules": [{"allow": "a-b/act"}]}
    async with in_memory(configuration(tmp_path, servers, permissions=permissions)) as host:
        python = [line.split("/")[0] for line in (await host.call("list_dir", path="/servers")).text.splitlines()[1:]]
        assert len({name.casefold() for name in python}) == 3
        names = [*python, "a.b", "a-b", "A_B", "a_b"]
        await host.run(RAW + f"for n, name in enumerate({names!r}, start=1): call(n, name, 'act', how='ping')")
    assert {name: arrived(tmp_path, name) for name in servers} == {"a.b": [], "a-b": ["act", "act"], "A_B": []}


@pytest.mark.evasion
async def test_a_tool_list_that_changes_between_look_and_call_changes_what_is_called_not_who_may(
    tmp_path: Path,
) -> None:
    """The upstream adds `a_b`, whose Python name was that of `a-b` until now. The stub that was imported before names
    another tool then; the rule, written for the name as it was, holds for both."""
    permissions = {"rules": [{"deny": "renaming/a_b"}]}
    program = """
import time, codemode
from servers.renaming import rename, a_b
outcomes = []
def attempt(function):
    try:
        function(); outcomes.append("went through")
    except codemode.ToolError as error:
        outcomes.append(error.kind)
attempt(a_b)
rename()
time.sleep(1.5)
attempt(a_b)
attempt(lambda: codemode.call("renaming", "a_b"))
attempt(lambda: codemode.call("renaming", "a-b"))
outcomes
"""
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "renaming"), permissions=permissions)) as host:
        assert (await host.run(program)).value == ["refused"] * 4
    assert arrived(tmp_path, "renaming") == ["rename"]
