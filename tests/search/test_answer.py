"""`search_tools`: what is found, in what order, and how it is shown at each level of detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from codemode_server.catalog.catalog import Catalog, RefusalOf
from codemode_server.catalog.observed import Observed
from codemode_server.catalog.shapes import Shape
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.resources import ResourceDefinition
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import Effect, Refusal, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults

NO_ARROW = "(without ->, the type of the result is not known)"
GITHUB = UpstreamListing(
    "github",
    UpstreamState.READY,
    (
        ToolDefinition(
            "create_issue",
            "Open a new issue. Needs a token.",
            input_schema={"required": ["title"], "properties": {"title": {"type": "string"}}},
            effect=Effect.WRITES,
        ),
        ToolDefinition("list_issues", "List the issues of a repository."),
        ToolDefinition("mergePullRequest", "Bring a branch in."),
    ),
)
SLACK = UpstreamListing(
    "slack",
    UpstreamState.FAILED,
    (ToolDefinition("post_message", "Send a message to a channel."), ToolDefinition("查询消息", "查询频道中的消息")),
    error="no token",
)


def search(
    query: str, listings: list[UpstreamListing] | None = None, *, skills: Sequence[Skill] = (), **arguments: Any
) -> SearchResults:
    catalog = Catalog.build(listings if listings is not None else [GITHUB, SLACK])
    levels = RankerStack()
    levels.index(collections(catalog, skills))
    return search_tools(catalog, levels, query, **arguments)


def refusing(name: str) -> RefusalOf:
    """Permissions that deny the tools of this name on the first server that has one."""
    refusal = Refusal("rule 1")
    return lambda server, tool: refusal if tool.name == name and server.name != "other" else None


def names(results: SearchResults) -> list[str]:
    return [found.name for found in results.results]


class TestTexts:
    def test_what_comes_from_one_server_stands_below_one_line(self) -> None:
        assert search("github issue").text == (
            "from servers.github import <name>\n"
            "  create_issue(title: str)\n"
            "    Open a new issue. (writes)\n"
            "  list_issues()\n"
            "    List the issues of a repository.\n"
            "  mergePullRequest()\n"
            f"    Bring a branch in.\n{NO_ARROW}"
        )

    def test_a_deprecated_tool_is_marked_and_stands_behind_its_successor_unless_it_is_named(self) -> None:
        tools = (
            ToolDefinition("read_file", "Read a file. DEPRECATED: Use read_text_file instead."),
            ToolDefinition("read_text_file", "Read a file with text, whole or in part."),
        )
        files = [UpstreamListing("files", UpstreamState.READY, tools)]
        found = search("read a file", files)
        assert names(found) == ["files.read_text_file", "files.read_file"]
        assert "    Read a file. (deprecated)" in found.text
        assert names(search("read_file", files))[0] == "files.read_file"

    def test_a_skill_is_shown_with_the_function_to_import(self) -> None:
        weekly = Skill("weekly", "Sum up the issues of a week.", "weekly", "weekly(week: int) -> str")
        assert search("sum up a week", skills=[weekly]).text == (
            "from skills.weekly import weekly\n  weekly(week: int) -> str\n    Sum up the issues of a week."
        )
        assert search("sum up a week", skills=[Skill("weekly", "Sum up a week.")]).text == (
            "import skills.weekly\n    Sum up a week."
        )
        assert search("sum up a week", skills=[weekly], detail_level="name_only").text == "skills.weekly"

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"query": "quantum"}, 'nothing found for "quantum"; servers: github, slack'),
            (
                {"query": "quantum", "server": "slack"},
                'nothing found for "quantum" in slack; list_dir("/servers/slack") lists its tools',
            ),
            ({"query": "x", "listings": []}, 'nothing found for "x": no server is configured'),
            ({"query": "", "listings": []}, "there are no tools"),
        ],
    )
    def test_nothing_found_says_what_to_do(self, arguments: dict[str, Any], text: str) -> None:
        assert search(**arguments).text == text

    def test_a_tool_that_states_no_effect_may_write_and_one_that_destroys_writes(self) -> None:
        """Most servers annotate few of their tools: a filter that left the others out would hide what is looked for."""
        tools = (
            ToolDefinition("write_rows", "Insert rows."),
            ToolDefinition("drop_rows", "Drop rows.", effect=Effect.DESTROYS),
            ToolDefinition("read_rows", "Read rows.", effect=Effect.READS),
        )
        found = search("rows", [UpstreamListing("db", UpstreamState.READY, tools)], effect="writes")
        assert sorted(names(found)) == ["db.drop_rows", "db.write_rows"]
        assert "Insert rows. (effect not stated)" in found.text
        assert "(effect not stated)" not in search("rows", [UpstreamListing("db", UpstreamState.READY, tools)]).text

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"query": "issue", "effect": "writes"}, "github.create_issue\ngithub.list_issues"),
            ({"query": "issue", "effect": "destroys"}, "github.list_issues"),
            ({"query": "create issue", "server": "GitHub", "limit": 1}, "github.create_issue"),
            (
                {"query": "", "effect": "reads", "server": "slack"},
                'nothing found that reads in slack; list_dir("/servers/slack") lists its tools',
            ),
            ({"query": "issue", "server": "skills"}, "skills.weekly"),
            (
                {"query": "zebra", "server": "skills"},
                'nothing found for "zebra" in skills; list_dir("/skills") lists them',
            ),
            (
                {"query": "", "limit": 100},
                "5 tools on 2 servers: github 3, slack 2; 1 skill\n"
                "github.create_issue\ngithub.list_issues\ngithub.mergePullRequest\n"
                "slack.post_message  [unavailable: calls fail until it is back (no token)]\n"
                "slack.查询消息  [unavailable: calls fail until it is back (no token)]\nskills.weekly",
            ),
        ],
    )
    def test_filters_narrow_what_is_found_and_what_is_listed(self, arguments: dict[str, Any], text: str) -> None:
        skills = [Skill("weekly", "Sum up the issues of a week.")]
        assert search(**arguments, skills=skills, detail_level="name_only").text == text

    def test_programs_get_the_import_and_the_signature_of_each_tool(self) -> None:
        assert search("issue", limit=1).as_json() == [
            {
                "server": "github",
                "name": "create_issue",
                "import": "from servers.github import create_issue",
                "description": "Open a new issue. (writes)",
                "signature": "create_issue(title: str)",
            }
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                {"detail_level": "all"},
                'detail_level must be one of "name_only", "with_description", "full", "scaffold", not "all"',
            ),
            ({"limit": 0}, "limit must be an integer from 1 to 100"),
            ({"effect": "breaks"}, 'effect must be one of "reads", "writes", "destroys", not "breaks"'),
            ({"server": "githib"}, 'no server "githib"; nearest: github'),
        ],
    )
    def test_a_wrong_argument_is_answered_with_the_right_ones(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(MetaToolError) as raised:
            search("issue", **arguments)
        assert str(raised.value) == message


class TestCensus:
    """What asks for everything is answered with the numbers and the names, not with ten tools at random."""

    SERVERS: ClassVar = [
        UpstreamListing("notes", UpstreamState.READY, tuple(ToolDefinition(f"note_{n}", "A note.") for n in range(30))),
        UpstreamListing("cloud-vm", UpstreamState.READY, (ToolDefinition("list_servers", "List the machines."),)),
    ]
    ALL = "31 tools on 2 servers: cloud_vm 1, notes 30; a search for what a task needs shows signatures"
    NOTES = "30 tools on 1 server: notes 30; a search for what a task needs shows signatures"

    @pytest.mark.parametrize(
        "query",
        [
            *("", "*", "**", ".*", "all", "everything", "tools", "Tools?", "list all tools", "what can you do", "help"),
            *("list all", "show me every available tool", "which tools are there?", "all MCP tools"),
            *("what capabilities do you have?", "how many tools are connected"),
        ],
    )
    def test_counts_and_names_all(self, query: str) -> None:
        lines = search(query, self.SERVERS).text.split("\n")
        assert (lines[0], lines[1:3], len(lines)) == (self.ALL, ["cloud_vm.list_servers", "notes.note_0"], 32)

    @pytest.mark.parametrize(
        ("query", "arguments"),
        [("notes tools", {}), ("what can notes do?", {}), ("notes.*", {}), ("all", {"server": "notes"})],
    )
    def test_of_one_server_where_the_query_or_the_filter_names_it(self, query: str, arguments: dict[str, Any]) -> None:
        assert search(query, self.SERVERS, **arguments).text.startswith(f"{self.NOTES}\nnotes.note_0\n")

    @pytest.mark.parametrize("query", ["list all servers", "list_servers", "all notes", "list the machines"])
    def test_leaves_a_query_alone_that_a_tool_can_answer(self, query: str) -> None:
        assert " tools on " not in search(query, self.SERVERS).text

    def test_gives_numbers_alone_for_more_than_a_hundred(self) -> None:
        tools = tuple(ToolDefinition(f"t_{n}") for n in range(1_200))
        text = search("*", [UpstreamListing("big", UpstreamState.READY, tools)]).text
        assert text.startswith("1,200 tools on 1 server: big 1,200; list_dir(")
        assert "\n" not in text


IMAGES = {"properties": {"content": {"items": {"properties": {"type": {"enum": ["image", "audio"]}}}}}}
TEXT = {"properties": {"content": {"type": "string"}}}


@pytest.mark.parametrize(
    ("name", "output_schema", "shape", "note"),
    [
        ("snapshot", None, Shape(files=1), "-> File  # an image or file: show(it) lets you see it"),
        ("snapshots", None, Shape(lists=1, items=Shape(files=2)), "an image or file: show(it) lets you see it"),
        (
            "read_media",
            {"type": "object", **IMAGES},
            None,
            "files are in .files: show(result.files[0]), .files[0].data",
        ),
        ("read_file", {"type": "object", **TEXT}, None, ""),
    ],
)
def test_a_tool_that_gives_an_image_says_how_it_is_shown(
    name: str, output_schema: dict[str, Any] | None, shape: Shape | None, note: str
) -> None:
    tool = ToolDefinition(name, "Take a picture.", output_schema=output_schema)
    listings = [UpstreamListing("cam", UpstreamState.READY, (tool,))]
    learned = Catalog.build(listings, observed=lambda _, __: Observed(1, shape) if shape else None)
    levels = RankerStack()
    levels.index(collections(learned))
    text = search_tools(learned, levels, "take a picture").text
    assert note in text if note else "show(" not in text


class TestWeakResults:
    """What hardly fits is left out, and where nothing fits it is said."""

    CLOUD = UpstreamListing(
        "cloud",
        UpstreamState.READY,
        (
            ToolDefinition("delete_virtual_machine", "Delete a virtual machine for good."),
            ToolDefinition("list_virtual_machines", "List the virtual machines."),
            ToolDefinition("resize_virtual_machine", "Give a virtual machine another size."),
            ToolDefinition("delete_bucket", "Delete a bucket."),
            ToolDefinition("get_budget", "What the virtual hardware costs."),
        ),
        description="Machines for rent.",
    )

    @pytest.mark.parametrize(
        ("level", "shown"),
        [
            ("name_only", "cloud.delete_bucket\ncloud.delete_virtual_machine"),
            (
                "with_description",
                "from servers.cloud import <name>\n  delete_bucket()\n    Delete a bucket.\n"
                "  delete_virtual_machine()\n    Delete a virtual machine for good.\n"
                "(without ->, the type of the result is not known)",
            ),
        ],
    )
    def test_where_nothing_fits_the_nearest_that_can_be_called_are_shown_as_results_are(
        self, level: str, shown: str
    ) -> None:
        """Of 29 everyday queries the right tool was the nearest for 9 that nothing fits."""
        refused = ToolDefinition("delete_delete", "Delete.")
        things = UpstreamListing("things", UpstreamState.READY, (refused,))
        refusal_of = refusing("delete_delete")
        found = search("delete a tweet", [self.CLOUD, things, GITHUB], detail_level=level, refusal_of=refusal_of)
        assert found.text == f'nothing fits "delete a tweet" exactly; nearest:\n{shown}'
        assert [record["name"] for record in found.as_json()] == ["delete_bucket", "delete_virtual_machine"]

    def test_of_several_wants_it_is_said_which_nothing_fits(self) -> None:
        found = search("list the virtual machines of everybody; order a pizza with extra cheese", [self.CLOUD])
        assert found.doubt == 'nothing fits "order a pizza with extra cheese" exactly'
        assert names(found)[0] == "cloud.list_virtual_machines"

    @pytest.mark.parametrize(
        "query", ["resize the machine 'Q3'", 'resize "web-7" to 2024-large', "resize machine vm-42"]
    )
    def test_a_value_in_the_query_makes_no_doubt(self, query: str) -> None:
        found = search(query, [self.CLOUD])
        assert found.doubt == ""
        assert names(found)[0] == "cloud.resize_virtual_machine"


class TestToolsThatThePermissionsRefuse:
    def test_are_marked_with_the_rule_once(self) -> None:
        text = search("list or create issues", [GITHUB], refusal_of=lambda *_: Refusal("rule 1")).text
        assert text.count("[not permitted: rule 1]") == 1
        assert text.count("[not permitted]") == 1

    def test_leave_the_first_place_to_the_same_tool_of_another_server(self) -> None:
        fetch = ToolDefinition("fetch", "Fetch the content of a page from the web.")
        servers = [UpstreamListing(name, UpstreamState.READY, (fetch,)) for name in ("browser", "other")]
        assert names(search("fetch a page", servers)) == ["browser.fetch"], "control"
        assert names(search("fetch a page", servers, refusal_of=refusing("fetch"))) == ["other.fetch"]


def test_a_resource_is_found_beside_the_tools_and_comes_first_where_no_tool_fits() -> None:
    resources = (ResourceDefinition("docs://architecture", "architecture.md", description="Parts of the program."),)
    docs = UpstreamListing("docs", UpstreamState.READY, (ToolDefinition("count_words"),), resources=resources)
    text = search("architecture", [docs, GITHUB]).text
    assert text.startswith("resources:\n")
    assert text.endswith("no tool matches")
    assert search("parts of a program", [docs, GITHUB]).resources, "by its description"
    found = search("architecture of an issue", [docs, GITHUB])
    assert [resource.name for resource, _ in found.resources] == ["architecture.md"]
    assert names(found)[0] == "github.create_issue"
    assert [record["name"] for record in found.as_json()][-1] == "architecture.md"
