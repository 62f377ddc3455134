"""Resources and prompts that come and go while the product runs: the folders, programs and the host follow.

The upstream is a real process, of either protocol; the edit of upstream.yaml is a real edit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests import fork_server

from .product import Host, configuration, in_memory

pytestmark = pytest.mark.slow

SHELF = """\
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource

server = MCPServer("shelf", log_level="CRITICAL")

@server.resource("shelf://first", name="first")
def first() -> str:
    return "the first"

@server.prompt()
def greet() -> str:
    "Greet."
    return "Hello"

@server.tool()
async def put(context: Context) -> str:
    "Put something on the shelf."
    server.add_resource(TextResource(uri="shelf://second", name="second", text="the second"))
    server.add_prompt(Prompt.from_function(lambda: "Goodbye", name="part", description="Part."))
    await context.notify_resources_changed()
    await context.notify_prompts_changed()
    await context.session.send_resource_list_changed()
    await context.session.send_prompt_list_changed()
    return "put"

server.run("stdio")
"""
PUT = "from servers.shelf import put\nput()"
READ = "from servers.shelf import resources\nresources.read('second').text"


def shelf(folder: Path, protocol: str = "auto") -> dict[str, Any]:
    script = folder / "shelf.py"
    script.write_text(SHELF)
    return {"shelf": {**fork_server.upstream(str(script)), "protocol": protocol}}


async def listed(host: Host) -> str:
    return (await host.call("list_dir", path="/servers/shelf/resources")).text


async def prompts(host: Host) -> list[str]:
    return [prompt.name for prompt in (await host.client.list_prompts(cache_mode="bypass")).prompts]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_resource_that_a_server_adds_is_in_the_folder_and_read_by_programs(
    tmp_path: Path, protocol: str
) -> None:
    async with in_memory(configuration(tmp_path, shelf(tmp_path, protocol))) as host:
        assert "second" not in await listed(host)
        assert (await host.run(READ)).result.is_error
        await host.run(PUT)

        async def is_listed() -> bool:
            return "second" in await listed(host)

        await host.until(is_listed)
        assert (await host.run(READ)).value == "the second"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_prompt_that_a_server_adds_is_offered_and_the_host_is_notified(tmp_path: Path, protocol: str) -> None:
    notified: list[Any] = []

    async def note(message: Any) -> None:
        notified.append(message)

    path = configuration(tmp_path, shelf(tmp_path, protocol))
    async with in_memory(path, mode="legacy", message_handler=note) as host:
        assert await prompts(host) == ["shelf/greet"]
        notified.clear()  # the first listing was announced as well
        await host.run(PUT)

        async def is_offered() -> bool:
            return await prompts(host) == ["shelf/greet", "shelf/part"]

        await host.until(is_offered)
        await host.until(lambda: any(isinstance(it, types.PromptListChangedNotification) for it in notified))
        answer = await host.client.get_prompt("shelf/part")
    assert "Goodbye" in str(answer.messages[-1].content)
