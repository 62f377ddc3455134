"""File names of resources, what a program means by a name or URI, and what folders and searches show of them."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.resources import Resource, ServerResources
from codemode_server.catalog.tree import Tree
from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.resources import ResourceDefinition
from codemode_server.domain.tools import Refusal, ToolDefinition, UpstreamListing, UpstreamState

README = ResourceDefinition(
    "docs://readme", "readme", description="How it works.", mime_type="text/markdown", size=1234
)
ISSUE = ResourceDefinition("docs://{repo}/issues/{id}", "issue", is_template=True)


def resources(*definitions: ResourceDefinition, has_tool: bool = False) -> ServerResources:
    return ServerResources("docs", definitions, has_tool=has_tool)


def catalog(*definitions: ResourceDefinition, tools: tuple[str, ...] = ("count",), **more: Any) -> Catalog:
    known = tuple(ToolDefinition(name, f"The tool {name}.") for name in tools)
    return Catalog.build([UpstreamListing("docs", UpstreamState.READY, known, resources=definitions, **more)])


class TestFileNames:
    @pytest.mark.parametrize(
        ("name", "uri", "expected"),
        [
            ("readme.md", "docs://x", "readme.md"),
            ("Annual report, 2026", "docs://x", "Annual_report_2026"),
            ("", "docs://a/b/notes.txt", "notes.txt"),
            ("../../etc/passwd", "docs://x", "etc_passwd"),
            ("größe", "docs://x", "größe"),
            ("a?page=2:10", "docs://x", "a_page_2_10"),
        ],
    )
    def test_come_from_the_name_or_the_end_of_the_uri(self, name: str, uri: str, expected: str) -> None:
        assert [it.name for it in resources(ResourceDefinition(uri, name)).all] == [expected]

    def test_that_would_be_alike_are_told_apart_by_their_uris_in_any_order(self) -> None:
        one, other = ResourceDefinition("docs://1", "Notes"), ResourceDefinition("docs://2", "notes")
        names = {it.uri: it.name for it in resources(one, other).all}
        assert names == {it.uri: it.name for it in resources(other, one).all}
        assert len({name.casefold() for name in names.values()}) == 2


class TestWhatAProgramMeans:
    @pytest.mark.parametrize("named", ["readme", "docs://readme"])
    def test_is_found_by_name_and_by_uri(self, named: str) -> None:
        found = resources(README, ISSUE).find(named, {})
        assert (found.uri, found.problem) == ("docs://readme", "")

    def test_may_be_a_template_with_its_arguments(self) -> None:
        assert resources(ISSUE).find("issue", {"repo": "a b", "id": 7}).uri == "docs://a%20b/issues/7"

    @pytest.mark.parametrize(
        ("named", "arguments", "problem"),
        [
            ("issue", {"id": 7}, "'repo' is missing"),
            ("issue", {"repo": "a", "id": 7, "x": 1}, "takes repo, id, not 'x'"),
            ("issue", {"repo": "..", "id": 7}, "'..' as a step"),
            ("issue", {"repo": "a\n", "id": 7}, "control characters"),
            ("issue", {"repo": {"a": 1}, "id": 7}, "text or a number"),
            ("readme", {"id": 7}, "takes no arguments"),
            ("raedme", {}, "nearest: readme"),
            ("docs://a/issues/7/more", {}, "no resource"),
            ("docs://../issues/7", {}, "no resource"),
            ("docs://%2e%2e%2f/issues/7", {}, "no resource"),
            ("file:///etc/passwd", {}, "no resource"),
        ],
    )
    def test_else_is_an_error_that_says_what_is_right(
        self, named: str, arguments: dict[str, Any], problem: str
    ) -> None:
        assert problem in resources(README, ISSUE).find(named, arguments).problem


class TestWhatAServerMayUnderstandByAUri:
    """Rules that refuse hold for all of it."""

    SECRET = ResourceDefinition("docs://secret/{id}", "secret", is_template=True)
    ANY = ResourceDefinition("docs://{+path}", "any", is_template=True)
    PRIVATE = ResourceDefinition("docs://data/private.txt", "private")

    def meant(self, uri: str) -> set[str]:
        return {it.name for it in resources(self.SECRET, self.ANY, self.PRIVATE, README).meant_by(uri)[0]}

    def test_is_each_template_that_gives_it_and_the_listed_resource(self) -> None:
        assert self.meant("docs://secret/7") == {"secret", "any"}
        assert self.meant("docs://data/private.txt") == {"private", "any"}
        assert self.meant("docs://secrets/7") == {"any"}
        assert self.meant("other://secret/7") == set()

    @pytest.mark.parametrize(
        "uri",
        [
            "docs://DATA/private.txt",
            "docs://data/privat%65.txt",
            "docs://data%2Fprivate.txt",
            "docs://data//private.txt",
            "docs://data/x/../private.txt",
            "docs://data/private.txt?x",
            "docs://data/private.txt#x",
        ],
    )
    def test_is_a_listed_resource_in_each_spelling_of_its_uri(self, uri: str) -> None:
        assert "private" in self.meant(uri)

    @staticmethod
    def refusal(_server: Server, listed: Tool | Resource) -> Refusal | None:
        is_refused = isinstance(listed, Resource) and listed.name == "readme"
        return Refusal("rule 1") if is_refused else None

    def test_are_marked_in_their_folder_and_counted_with_the_rule(self) -> None:
        head, issue, readme = self.lines("/servers/docs/resources")
        assert head.endswith(" · 1 not permitted: rule 1")
        assert (issue.endswith("[not permitted]"), readme.endswith("[not permitted]")) == (False, True)

    def lines(self, path: str) -> list[str]:
        both = catalog(README, ResourceDefinition("docs://issues", "issues"))
        return Tree(both, self.refusal).list_dir(path).text.split("\n")


class TestFiles:
    def test_say_what_is_known_and_how_to_read_it_but_not_the_content(self) -> None:
        text = Tree(catalog(README)).read_tool("/servers/docs/resources/readme")[0].text
        assert text.split("\n") == [
            "# /servers/docs/resources/readme",
            '"""URI: docs://readme',
            "name: readme",
            "MIME type: text/markdown",
            "size: 1,234 bytes",
            "How it works.",
            '"""',
            "from servers.docs import resources",
            "file = resources.read('readme')  # its content: file.text, file.data",
        ]

    def test_can_not_be_left_by_a_path(self) -> None:
        with pytest.raises(MetaToolError):
            Tree(catalog(README)).read_tool("/servers/docs/resources/../../../etc/passwd")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("set_up_py", r"it is a resource: from servers\.docs import resources; resources\.read\('set-up\.py'\)"),
        ("read_resource", "nearest: resources"),
    ],
)
def test_a_resource_that_is_taken_for_a_tool_is_answered_with_its_reading(name: str, advice: str) -> None:
    with pytest.raises(UnknownTool, match=advice):
        catalog(ResourceDefinition("docs://s.py", "set-up.py")).tool("docs", name)
