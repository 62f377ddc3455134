"""The reference server's tools that need what codemode-server does not support yet: all are listed, marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.real_servers import commands
from tests.behaviour.product import configuration, in_memory

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300)]


async def test_the_reference_server_shows_its_seventeen_tools_five_of_them_not_callable(
    real_servers: None, tmp_path: Path
) -> None:
    """It showed 13, with no word about the other four."""
    command, *arguments = commands(["everything"])["everything"]
    server = {"command": command, "args": arguments}
    async with in_memory(configuration(tmp_path, {"everything": server})) as host:

        async def lists_all() -> bool:
            return "17 tools" in (await host.call("list_dir", path="/servers/everything")).text

        await host.until(lists_all)
        listed = (await host.call("list_dir", path="/servers/everything")).text
    marked = [line.split(".py")[0] for line in listed.split("\n") if line.endswith("]")]
    assert marked == [
        "get_roots_list",
        "simulate_research_query",
        "trigger_elicitation_request",
        "trigger_sampling_request",
        "trigger_url_elicitation",
    ]
