"""What changes while the product runs reaches the catalog, the stubs and the search without a restart: an edit of
upstream.yaml, an upstream that changes its tools, one that dies and comes back, tools known from the last run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests import fork_server

from .product import Host, configuration, in_memory, office

pytestmark = pytest.mark.slow

CHANGING = """\
import os, sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("changing", log_level="CRITICAL")

@server.tool(description="Paint a fence.")
def paint() -> str:
    return "painted"

@server.tool(description="Learn to juggle.")
async def learn(context: Context) -> str:
    if not any(tool.name == "juggle" for tool in await server.list_tools()):
        server.add_tool(juggle)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "learnt"

@server.tool(description="Die.")
def die() -> str:
    os._exit(1)

def juggle(balls: int) -> int:
    "Juggle with balls."
    return balls

server.run("stdio")
"""


def changing(folder: Path) -> dict[str, Any]:
    script = folder / "changing.py"
    script.write_text(CHANGING)
    return {"changing": fork_server.upstream(str(script))}


async def found(host: Host, query: str) -> list[str]:
    return [tool["name"] for tool in (await host.call("search_tools", query=query)).content["tools"]]


async def until_found(host: Host, query: str, name: str) -> None:
    async def is_found() -> bool:
        return name in await found(host, query)

    await host.until(is_found)


async def test_an_upstream_added_to_the_file_is_there_without_a_restart(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    async with in_memory(path, watch=True) as host:
        assert "get_channel_history" not in await found(host, "channel history")
        configuration(tmp_path, office(tmp_path, "github", "slack"))
        await until_found(host, "channel history", "get_channel_history")
        code = "from servers.slack import get_channel_history\nlen(get_channel_history(channel='C1'))"
        assert (await host.run(code)).value == 2


async def test_edited_permissions_hold_for_the_next_call(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    code = "from servers.github import list_issues\nlen(list_issues(repo='r'))"
    async with in_memory(path, watch=True) as host:
        assert (await host.run(code)).value == 5
        configuration(tmp_path, office(tmp_path, "github"), permissions={"default": "deny"})

        async def is_refused() -> bool:
            return (await host.run(code)).result.is_error is True

        await host.until(is_refused)
        assert "permissions.default is 'deny'" in (await host.run(code)).error["message"]


async def test_an_edit_that_cannot_be_used_leaves_the_old_settings_in_force(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    code = "from servers.github import list_issues\nlen(list_issues(repo='r'))"
    async with in_memory(path, watch=True) as host:
        path.write_text('{"servers": {"github": {"comand": "x"}}}')
        await anyio.sleep(2.5)  # two looks at the file and one interval more: there is nothing to wait for
        assert (await host.run(code)).value == 5
        configuration(tmp_path, office(tmp_path, "github", "slack"))
        await until_found(host, "channel history", "get_channel_history")


async def test_a_tool_that_an_upstream_adds_is_found_read_and_called(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, changing(tmp_path))) as host:
        assert "juggle" not in await found(host, "juggle")
        await host.run("from servers.changing import learn\nlearn()")
        await until_found(host, "juggle", "juggle")
        assert "balls: int" in (await host.call("read_tool", path="servers/changing/juggle.py")).text
        assert (await host.run("from servers.changing import juggle\njuggle(balls=3)")).value == 3


async def test_an_upstream_that_dies_in_a_call_is_back_for_the_next(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, changing(tmp_path))) as host:
        answer = await host.run("from servers.changing import die\ndie()")
        assert answer.content["calls"][0]["status"] == "unknown"
        assert "paint" in await found(host, "paint a fence"), "its tools stay listed"

        async def is_back() -> bool:
            return (await host.run("from servers.changing import paint\npaint()")).result.is_error is False

        await host.until(is_back)


async def test_tools_of_the_last_run_are_there_before_their_upstream_is(tmp_path: Path) -> None:
    """And are marked as unavailable when it does not come up."""
    servers = changing(tmp_path)
    path = configuration(tmp_path, servers)
    async with in_memory(path) as host:
        assert "paint" in await found(host, "paint a fence")
    (tmp_path / "changing.py").write_text("import sys; sys.exit('the licence has run out')")
    async with in_memory(path) as host:
        answer = await host.call("search_tools", query="paint a fence")
        assert answer.content["tools"][0]["name"] == "paint"
        assert "unavailable" in json.dumps(answer.content["tools"][0])
        failed = await host.run("from servers.changing import paint\npaint()")
        assert "the licence has run out" in failed.error["message"]
