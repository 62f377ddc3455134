"""A meta-tool is one file in `front/tools/`: the list of tools, the check of arguments and the calls find it there.

The file of a toy is put beside the real ones for a process of its own, which a real client drives.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from codemode_server.front.tools.registry import meta_tools
from tests.behaviour.product import configuration

ROOT = Path(__file__).parents[2]
TOY = """
from codemode_server.front.tools.registry import (
    READS, TEXT_RESULT, Answer, Description, MetaToolSpec, ToolArguments, ToolContext
)


class CountArguments(ToolArguments):
    letter: str = "a"


async def count(arguments, context):
    await context.services.wait_for_listing()
    names = [server.name for server in context.services.catalog().servers]
    text = f"{arguments.letter} in {context.request.principal.principal_id}: {len(names)} servers"
    return Answer(text, {"text": text})


META_TOOL = MetaToolSpec(
    name="count_servers",
    title="Count servers",
    arguments=CountArguments,
    describe=lambda settings, servers: Description(
        f"Counts, in {settings.limits.calls} calls.", {"letter": {"description": f"for {servers.names or 'nobody'}"}}
    ),
    annotations=READS,
    output_schema=TEXT_RESULT,
    handle=count,
)
"""
MAIN = """
import sys
import codemode_server.front.tools as tools
tools.__path__.append(sys.argv.pop(1))
from codemode_server.__main__ import main
main()
"""


def client_of(path: Path) -> Client:
    """A host of `codemode-server` with the toy among its meta-tools."""
    more = path.parent / "more"
    more.mkdir()
    (more / "toy.py").write_text(TOY)
    command = ["-c", MAIN, str(more), "--config", str(path)]
    return Client(StdioServerParameters(command=sys.executable, args=command, env={"PYTHONPATH": str(ROOT)}))


async def test_a_toy_is_listed_and_called_and_its_arguments_are_checked(tmp_path: Path) -> None:
    path = configuration(tmp_path, {}, sandbox={"backend": "wasm"})
    async with client_of(path) as client:
        listed = (await client.list_tools()).tools
        answer = await client.call_tool("count_servers", {"letter": "b"})
        wrong = await client.call_tool("count_servers", {"leter": "b"})
        unknown = await client.call_tool("count_server", {})
    assert [tool.name for tool in listed] == [
        "count_servers",
        "list_dir",
        "read_tool",
        "search_tools",
        "execute_code",
    ]
    assert (listed[0].title, listed[0].description) == ("Count servers", "Counts, in 1000 calls.")
    assert listed[0].input_schema["properties"] == {
        "letter": {"default": "a", "type": "string", "description": "for nobody"}
    }
    assert answer.structured_content == {"text": "b in default: 0 servers"}
    assert "there is no argument 'leter' (did you mean 'letter'?). It takes letter?." in text_of(wrong.content)
    assert "did you mean count_servers?" in text_of(unknown.content)


def test_the_tools_that_change_nothing_come_first() -> None:
    assert list(meta_tools()) == ["list_dir", "read_tool", "search_tools", "execute_code"]


def text_of(content: object) -> str:
    assert isinstance(content, list)
    assert isinstance(content[0], TextContent)
    return content[0].text
