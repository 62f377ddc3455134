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


async def test_async_programs_await_resources_and_gather_them(tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        + IMPORT
        + "files = await asyncio.gather(*[resources.read('book', number=n) for n in '12'])\n"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        assert (await host.run(code + "[file.text for file in files]")).value == ["Book 1", "Book 2"]


async def test_a_resource_is_named_and_given_its_arguments_in_each_way_that_tools_take_them(tmp_path: Path) -> None:
    code = IMPORT + (
        "r = [resources.read(uri='library://books/1').text, resources.read('book', {'number': 2}).text]\n"
        "try: resources.read('book', 1, 2)\nexcept TypeError as e: r.append(str(e))\nr"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        *texts, error = (await host.run(code)).value
    assert texts == ["Book 1", "Book 2"]
    assert error == "resources.read() takes the URI or name of a resource, and a template's arguments by name"


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


@pytest.mark.parametrize(
    "pattern", ["library/resources/book", "library/resources/*", "library/read_resource", "library"]
)
async def test_a_rule_for_a_template_holds_for_each_expansion(tmp_path: Path, pattern: str) -> None:
    rules = {"rules": [{"deny": pattern}]}
    code = (
        IMPORT
        + "r = []\nfor read in (lambda: resources.read('book', number=1), lambda: resources.read('library://books/1')):\n"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        answer = await host.run(code + "  try: r.append(read().text)\n  except ToolError as e: r.append(e.kind)\nr")
    assert answer.value == ["refused", "refused"]
    assert asked_of_library(tmp_path) == []


async def test_a_rule_may_allow_single_resources(tmp_path: Path) -> None:
    rules = {"default": "deny", "rules": [{"allow": "library/resources/readme"}]}
    code = (
        IMPORT
        + "r = [resources.read('readme').text]\ntry: resources.read('catalog.json')\n"
        + "except ToolError as e: r.append(e.kind)\nr"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path), permissions=rules)) as host:
        assert (await host.run(code)).value == ["# Library", "refused"]


async def test_a_misspelt_name_is_told_before_the_program_runs(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        await host.settled()
        answer = await host.run(
            "from servers.library import count_books\ncount_books()\n" + IMPORT + "resources.read('raedme')"
        )
    assert answer.error["type"] == "CheckFailed"
    assert "nearest: readme" in answer.error["message"]


async def test_a_search_finds_resources_after_the_tools(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        await host.settled()
        answer = await host.call("search_tools", query="book")
    assert [found["name"] for found in answer.content["tools"]] == ["count_books", "book"]
    assert "resources.read('book', number=…)" in answer.text


async def test_a_program_lists_resources_and_templates_apart(tmp_path: Path) -> None:
    code = IMPORT + (
        "listed = [(each['name'], each['uri'], each.get('arguments')) for each in resources.list()]\n"
        "[listed, [(each['name'], each['uri'], each['arguments']) for each in resources.templates()]]"
    )
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        assert (await host.run(code)).value == [
            [
                ["catalog.json", "library://catalog.json", None],
                ["private", "library://private", None],
                ["readme", "library://readme", None],
            ],
            [["book", "library://books/{number}", ["number"]]],
        ]


async def test_what_resources_can_do_is_imported_in_each_way_and_another_name_is_told(tmp_path: Path) -> None:
    imports = (
        "from servers.library.resources import list as listed, read\n"
        "import servers.library.resources as same\nimport importlib\n"
        "module = importlib.import_module('servers.library.resources')\n"
    )
    code = imports + "[len(listed()), read('readme').text, same.read('readme').text, module.read('readme').text]"
    async with in_memory(configuration(tmp_path, library(tmp_path))) as host:
        assert (await host.run(code)).value == [3, "# Library", "# Library", "# Library"]
        unknown = await host.run("from servers.library.resources import catalog_json")
        late = await host.run(IMPORT + "getattr(resources, 'contents')")
    assert "from servers.library import resources; resources.read('catalog.json')" in unknown.error["message"]
    assert "it has read(name_or_uri, **template_arguments), list() and templates()" in late.error["message"]
