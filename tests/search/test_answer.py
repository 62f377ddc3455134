"""`search_tools`: what is found, in what order, and how it is shown at each level of detail."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.errors import MetaToolError
from codemode_server.model import Effect, Skill, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.levels import Levels
from codemode_server.search.results import SearchResults

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
    levels = Levels()
    levels.index(collections(catalog, skills))
    return search_tools(catalog, levels, query, **arguments)


def names(results: SearchResults) -> list[str]:
    return [found.name for found in results.results]


class TestRanking:
    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("create_issue", "github.create_issue"),
            ("creating issues", "github.create_issue"),
            ("please list all the issues", "github.list_issues"),
            ("merge a pull request", "github.mergePullRequest"),
            ("slack", "slack.post_message"),
            ("send messages", "slack.post_message"),
            ("title", "github.create_issue"),
            ("消息", "slack.查询消息"),
        ],
    )
    def test_the_tool_that_is_meant_comes_first(self, query: str, best: str) -> None:
        assert names(search(query))[0] == best

    def test_only_what_has_to_do_with_the_query_is_found(self) -> None:
        assert names(search("channel")) == ["slack.post_message"]

    def test_one_server_alone(self) -> None:
        assert {found.place for found in search("issue message", server="slack").results} == {"servers.slack"}

    def test_the_order_is_the_same_every_time_where_scores_are_equal(self) -> None:
        twins = [
            UpstreamListing(name, UpstreamState.READY, (ToolDefinition("b_do"), ToolDefinition("a_do")))
            for name in ("y", "x")
        ]
        assert names(search("do it", [*twins])) == names(search("do it", [*reversed(twins)]))

    def test_a_server_that_changes_is_indexed_again_and_the_others_are_not(self) -> None:
        levels = Levels()
        before = Catalog.build([GITHUB, SLACK])
        levels.index(collections(before))
        smaller = dataclasses.replace(GITHUB, tools=GITHUB.tools[:2])
        after = Catalog.build([smaller, SLACK], before)
        levels.index(collections(after))
        assert [one.thing.name for one in levels.rank("merge issue", 10).found] == ["create_issue", "list_issues"]
        fresh = Levels()
        fresh.index(collections(after))
        for query in ("merge issue", "message", "list"):
            assert levels.rank(query, 10) == fresh.rank(query, 10)


class TestTexts:
    def test_names_only(self) -> None:
        assert search("issue", detail_level="name_only").text == "github.create_issue\ngithub.list_issues"

    def test_with_description(self) -> None:
        assert search("issue", limit=1).text == (
            "from servers.github import create_issue\n  create_issue(title: str)\n    Open a new issue. (writes)"
        )

    def test_what_comes_from_one_server_stands_below_one_line(self) -> None:
        assert search("github issue").text == (
            "from servers.github import <name>\n"
            "  create_issue(title: str)\n"
            "    Open a new issue. (writes)\n"
            "  list_issues()\n"
            "    List the issues of a repository.\n"
            "  mergePullRequest()\n"
            "    Bring a branch in."
        )

    def test_a_sentence_that_all_tools_say_is_told_once(self) -> None:
        tools = tuple(ToolDefinition(f"{verb}_call", "The API of the phone.") for verb in ("make", "end"))
        assert search("call", [UpstreamListing("phone", UpstreamState.READY, tools)]).text == (
            "from servers.phone import <name>\n  make_call()\n    The API of the phone.\n  end_call()"
        )

    def test_a_skill_is_shown_with_the_function_to_import(self) -> None:
        weekly = Skill("weekly", "Sum up the issues of a week.", "weekly", "weekly(week: int) -> str")
        assert search("sum up a week", skills=[weekly]).text == (
            "from skills.weekly import weekly\n  weekly(week: int) -> str\n    Sum up the issues of a week."
        )
        assert search("sum up a week", skills=[Skill("weekly", "Sum up a week.")]).text == (
            "import skills.weekly\n    Sum up a week."
        )
        assert search("sum up a week", skills=[weekly], detail_level="name_only").text == "skills.weekly"

    def test_in_full(self) -> None:
        source = Catalog.build([GITHUB]).tool("github", "create_issue").stub.source
        assert search("issue", limit=1, detail_level="full").text == f"# /servers/github/create_issue.py\n{source}"[:-1]

    def test_tools_of_a_server_that_is_not_there_are_found_and_marked(self) -> None:
        assert search("channel", detail_level="name_only").text == (
            "slack.post_message  [unavailable: calls fail until it is back (no token)]"
        )

    def test_an_empty_query_lists(self) -> None:
        assert search(" ", detail_level="name_only", limit=2).text == (
            "github.create_issue\ngithub.list_issues\n3 more; list_dir lists them by server"
        )

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

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"query": "", "effect": "writes"}, "github.create_issue"),
            ({"query": "issue", "effect": "writes"}, "github.create_issue"),
            (
                {"query": "issue", "effect": "destroys"},
                'nothing found for "issue" that destroys; servers: github, slack',
            ),
            (
                {"query": "", "effect": "reads", "server": "slack"},
                'nothing found that reads in slack; list_dir("/servers/slack") lists its tools',
            ),
            ({"query": "", "server": "skills"}, "skills.weekly"),
            ({"query": "issue", "server": "skills"}, "skills.weekly"),
            (
                {"query": "zebra", "server": "skills"},
                'nothing found for "zebra" in skills; list_dir("/skills") lists them',
            ),
            (
                {"query": "", "limit": 100},
                "github.create_issue\ngithub.list_issues\ngithub.mergePullRequest\n"
                "slack.post_message  [unavailable: calls fail until it is back (no token)]\n"
                "slack.查询消息  [unavailable: calls fail until it is back (no token)]\nskills.weekly",
            ),
        ],
    )
    def test_filters_narrow_what_is_found_and_what_is_listed(self, arguments: dict[str, Any], text: str) -> None:
        skills = [Skill("weekly", "Sum up the issues of a week.")]
        assert search(**arguments, skills=skills, detail_level="name_only").text == text

    def test_a_server_named_skills_is_that_server(self) -> None:
        listing = UpstreamListing("skills", UpstreamState.READY, (ToolDefinition("learn", "Learn."),))
        found = search("", [listing], skills=[Skill("weekly", "Sum up.")], server="skills", detail_level="name_only")
        assert found.text == "skills.learn"

    def test_for_programs(self) -> None:
        assert search("issue", limit=1).as_json() == [
            {
                "server": "github",
                "name": "create_issue",
                "import": "from servers.github import create_issue",
                "description": "Open a new issue. (writes)",
                "signature": "create_issue(title: str) -> Any",
            }
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"detail_level": "all"}, 'detail_level is one of "name_only", "with_description", "full", not "all"'),
            ({"limit": 0}, "limit is a number from 1 to 100"),
            ({"limit": 101}, "limit is a number from 1 to 100"),
            ({"effect": "breaks"}, 'effect is one of "reads", "writes", "destroys", not "breaks"'),
            ({"effect": "unknown"}, 'effect is one of "reads", "writes", "destroys", not "unknown"'),
            ({"server": "githib"}, 'no server "githib"; nearest: github'),
        ],
    )
    def test_a_wrong_argument_is_answered_with_the_right_ones(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(MetaToolError) as raised:
            search("issue", **arguments)
        assert str(raised.value) == message


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

    def test_results_are_not_padded_to_the_limit(self) -> None:
        assert names(search("delete a virtual machine", [self.CLOUD])) == [
            "cloud.delete_virtual_machine",
            "cloud.resize_virtual_machine",
            "cloud.delete_bucket",
        ]

    def test_where_nothing_fits_the_nearest_servers_are_named(self) -> None:
        found = search("delete a tweet", [self.CLOUD, GITHUB], detail_level="name_only")
        assert found.text == (
            'nothing fits "delete a tweet" well; nearest: servers.cloud (Machines for rent.)\n'
            "cloud.delete_bucket\ncloud.delete_virtual_machine"
        )

    def test_within_one_server_none_is_near(self) -> None:
        assert search("delete a tweet", [self.CLOUD, GITHUB], server="cloud").doubt == (
            'nothing fits "delete a tweet" well in cloud'
        )

    def test_a_server_without_a_description_is_told_by_its_tools(self) -> None:
        assert search("open the pod bay doors", [GITHUB]).doubt == (
            'nothing fits "open the pod bay doors" well; '
            "nearest: servers.github (create_issue, list_issues, mergePullRequest)"
        )

    def test_of_several_wants_it_is_said_which_nothing_fits(self) -> None:
        found = search("list the virtual machines of everybody; order a pizza with extra cheese", [self.CLOUD])
        assert found.doubt == 'nothing fits "order a pizza with extra cheese" well'
        assert names(found)[0] == "cloud.list_virtual_machines"

    def test_a_question_in_another_language_is_doubted_by_what_it_means_and_told_as_it_was_asked(self) -> None:
        assert search("supprimer la machine virtuelle", [self.CLOUD]).doubt == ""
        assert search("supprimer la recette de cuisine", [self.CLOUD]).doubt == (
            'nothing fits "supprimer la recette de cuisine" well; nearest: servers.cloud (Machines for rent.)'
        )

    @pytest.mark.parametrize(
        "query", ["list_virtual_machines", "virtual machine", "virtualmachine", "delet bucket", "the size of a machine"]
    )
    def test_what_fits_is_not_doubted(self, query: str) -> None:
        assert search(query, [self.CLOUD]).doubt == ""


def test_schemas_of_any_shape_can_be_indexed() -> None:
    shapes: list[Any] = [None, [], "x", {"properties": 3}, {"properties": {"a": None, "b": {"properties": [1]}}}]
    tools = tuple(ToolDefinition(f"t{n}", input_schema=shape) for n, shape in enumerate(shapes))
    assert len(search("t4", [UpstreamListing("s", UpstreamState.READY, tools)]).results) >= 1
