"""Links in the result of a direct tool: the host gets them, and the way to read those of the server alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import MCPError

from tests import fork_server
from tests.behaviour.product import UPSTREAMS, configuration, in_memory


async def test_a_link_that_only_the_server_can_read_comes_with_the_way_to_read_it(tmp_path: Path) -> None:
    """A host that is given such a URI asks us for it, and we don't forward `resources/read`."""
    command = fork_server.upstream(str(UPSTREAMS / "archive.py")) | {"expose": "direct"}
    async with in_memory(configuration(tmp_path, {"archive": command})) as host:
        linked = await host.call("archive__find_letters", count=1)
        with pytest.raises(MCPError, match="a program reads it"):
            await host.client.read_resource("archive://letters/1")
        read = await host.run("from servers.archive import find_letters\nfind_letters(count=1).files[0].text")
    assert "a program that calls this tool reads them: its result has .files, file.text fetches one" in linked.text
    assert isinstance(read.value, str)
