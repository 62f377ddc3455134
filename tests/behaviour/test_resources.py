"""Resources that a server lists, through the real product with a real upstream behind it, as a host sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.kit import recorded
from tests.behaviour.product import asked_of_library, configuration, in_memory, library

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
    assert asked_of_library(tmp_path) == ["readme", "catalog"]


async def test_a_denied_resource_is_not_asked_for_and_others_are(tmp_path: Path) -> None:
    rules = {"rules": [{"deny": "library/resources/private", "reason": "staff only"}]}
    code = (
        IMPORT
        + "r = []\nfor n in ('private', 'library://private', 'readme'):\n  try: r.append(resources.read(n).text)\n"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        answer = await host.run(code + "  except ToolError as e: r.append(e.kind)\nr")
    assert answer.value == ["refused", "refused", "# Library"]
    assert asked_of_library(tmp_path) == ["readme"]


async def test_a_denied_resource_is_marked_wherever_it_is_shown_and_others_are_not(tmp_path: Path) -> None:
    rules = {"rules": [{"deny": "library/resources/private"}, {"deny": "library/resources/library://books/*"}]}
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        folder = (await host.call("list_dir", path="library/resources")).text
        file = (await host.call("read_tool", path="library/resources/private")).text
        found = (await host.call("search_tools", query="private staff")).text
        other = (await host.call("search_tools", query="readme")).text
    marked = [line.split()[0] for line in folder.split("\n") if line.endswith("[not permitted]")]
    assert marked == ["private", "book"]
    assert "is not permitted: rule 1" in file.split("\n")[0]
    assert "[is not permitted: rule 1" in found
    assert "resources.read('readme')" in other
    assert "not permitted" not in other


async def test_a_misspelt_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        await host.settled()
        answer = await host.run(IMPORT + "resources.read('raedme')")
    assert answer.error["type"] == "ToolError"
    assert "nearest: readme" in answer.error["message"]
