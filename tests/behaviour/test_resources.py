"""Resources as a host and its programs see them: those that a server lists, that a result links to, and that come while
the product runs. The upstreams are real, of either protocol.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.attacks.kit import recorded
from tests.behaviour.product import asked_of, configuration, in_memory, library

pytestmark = pytest.mark.slow

IMPORT = "from servers.library import resources\n"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_listed_resource_is_read_by_name_and_recorded_as_a_call(tmp_path: Path, protocol: str) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path, protocol=protocol))) as host:
        answer = await host.run(IMPORT + "[resources.read('readme').text, resources.read('catalog.json').json()]")
    assert answer.value == ["# Library", {"books": 3}]
    assert [(call["tool"], call["status"]) for call in answer.content["calls"]] == [
        ("library.resources.read", "succeeded")
    ] * 2
    assert recorded(tmp_path) == [("library", "resources/read", "allow", "succeeded")] * 2
    assert asked_of("library", tmp_path) == ["readme", "catalog"]


async def test_a_denied_resource_is_not_asked_for_and_is_marked_wherever_it_is_shown(tmp_path: Path) -> None:
    """Others are not; a misspelt name is answered with the nearest."""
    rules = {"rules": [{"deny": "library/resources/private"}, {"deny": "library/resources/library://books/*"}]}
    rules["rules"].append({"allow": "library/resources/readme"})
    code = (
        IMPORT
        + "r = []\nfor n in ('private', 'library://private', 'readme'):\n  try: r.append(resources.read(n).text)\n"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        answer = await host.run(code + "  except ToolError as e: r.append(e.kind)\nr")
        folder = (await host.call("list_dir", path="library/resources")).text
        file = (await host.call("read_tool", path="library/resources/private")).text
        found = (await host.call("search_tools", query="private staff")).text
        other = (await host.call("search_tools", query="readme")).text
        misspelt = await host.run(IMPORT + "resources.read('raedme')")
    assert answer.value == ["refused", "refused", "# Library"]
    assert asked_of("library", tmp_path) == ["readme"]
    marked = [line.split()[0] for line in folder.split("\n") if line.endswith("[not permitted]")]
    assert marked == ["catalog.json", "private", "book"], "once some are denied, only what a rule allows is read"
    assert "is not permitted: rule 1" in file.split("\n")[0]
    assert "[is not permitted: rule 1" in found
    assert "resources.read('readme')" in other
    assert "not permitted" not in other
    assert "nearest: readme" in misspelt.error["message"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_linked_document_is_fetched_when_the_program_wants_it(tmp_path: Path, protocol: str) -> None:
    code = """
from servers.archive import find_letters
said, first, *others = find_letters(count=3)
text = first.fetch().text
[said, first.name, text, [it.is_link for it in others]]
"""
    async with in_memory(configuration(tmp_path, library(tmp_path, "archive", protocol=protocol))) as host:
        answer = await host.run(code)
    assert answer.value == ["3 letters", "letter-1.txt", "Letter 1: all is well.", [True, True]]
    assert [(call["tool"], call["status"]) for call in answer.content["calls"]] == [
        ("archive.find_letters", "succeeded"),
        ("archive.resources.read", "succeeded"),
    ]
    assert asked_of("archive", tmp_path) == ["letters/1"]
    assert recorded(tmp_path)[1] == ("archive", "resources/read", "allow", "succeeded")


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


def shelf(folder: Path, protocol: str = "auto") -> dict[str, Any]:
    script = folder / "shelf.py"
    script.write_text(SHELF)
    return {"shelf": {**fork_server.upstream(str(script)), "protocol": protocol}}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_resource_that_a_server_adds_is_in_the_folder_and_read_by_programs(
    tmp_path: Path, protocol: str
) -> None:
    read_second = "from servers.shelf import resources\nresources.read('second').text"
    async with in_memory(configuration(tmp_path, shelf(tmp_path, protocol))) as host:
        assert "second" not in (await host.call("list_dir", path="/servers/shelf/resources")).text
        assert (await host.run(read_second)).result.is_error
        await host.run(PUT)

        async def is_listed() -> bool:
            return "second" in (await host.call("list_dir", path="/servers/shelf/resources")).text

        await host.until(is_listed)
        assert (await host.run(read_second)).value == "the second"
