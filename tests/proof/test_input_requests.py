"""The reference server's tools that ask the host: all are listed for a host with the features, and answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.real_servers import commands
from tests.behaviour.person import Person
from tests.behaviour.product import Host, configuration, over_stdio

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300)]


def reference_server(folder: Path) -> Path:
    command, *arguments = commands(["everything"])["everything"]
    return configuration(folder, {"everything": {"command": command, "args": arguments}})


async def run(host: Host, tool: str, **arguments: Any) -> str:
    return (await host.run(f"from servers.everything import {tool}\n{tool}(**{arguments!r})")).text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_reference_server_asks_the_host_for_all_it_can(real_servers: None, tmp_path: Path, mode: str) -> None:
    """It showed 13 tools to a client without features."""
    person = Person(content={"name": "Ada", "check": True}, said="hello from the model")
    async with over_stdio(reference_server(tmp_path), mode=mode, **person.callbacks) as host:
        assert "17 tools" in (await host.call("list_dir", path="/servers/everything")).text
        assert "- Name: Ada" in await run(host, "trigger_elicitation_request")
        address = await run(host, "trigger_url_elicitation", url="https://example.com/x")
        assert "completed the URL elicitation" in address
        assert "hello from the model" in await run(host, "trigger_sampling_request", prompt="hi", maxTokens=50)
        assert "file:///home/ada/work" in await run(host, "get_roots_list")
        report = await run(host, "simulate_research_query", topic="python", ambiguous=True)
        assert "# Research Report: python" in report
    assert [getattr(one, "message", "")[:35] for one in person.seen[:2]] == ["The MCP server 'everything' asks: P"] * 2
