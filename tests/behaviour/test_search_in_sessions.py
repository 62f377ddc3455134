"""What a session has called changes the order of what it finds, and of nothing that another session does."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.mcp_server.server import McpServer
from tests.behaviour.product import Host, configuration, office


async def first(host: Host) -> str:
    found = (await host.call("search_tools", query="list the issues")).content["tools"]
    return str(found[0]["server"])


async def test_each_session_finds_the_tools_of_the_server_that_it_calls_first(tmp_path: Path) -> None:
    github = office(tmp_path, "github")["github"]
    path = configuration(tmp_path, {"alpha": github, "beta": github})
    async with App.open(load(path)) as app, AsyncExitStack() as clients:
        hosts = []
        for _ in range(3):
            front = McpServer()
            front.set_ready(app)
            hosts.append(Host(await clients.enter_async_context(Client(front)), tmp_path))
            await hosts[-1].settled()
        one, other, third = hosts
        assert [await first(host) for host in hosts] == ["alpha"] * 3, "control"
        assert (await other.run("from servers.beta import list_issues\nlist_issues(repo='r')")).value is not None

        async def is_counted() -> bool:  # a moment after the answer
            return await first(other) == "beta"

        await other.until(is_counted)
        for _ in range(3):
            await one.run("from servers.alpha import list_issues\nlist_issues(repo='r')")
        assert [await first(host) for host in (one, other, third)] == ["alpha", "beta", "alpha"]
