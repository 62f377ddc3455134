"""Topics of a large server: which tools stand together, told by nothing but the words in their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.catalog.naming import tool_names
from codemode_server.catalog.topics import Topic, topics_of

TOOLSETS = Path(__file__).parents[3] / "shared" / "toolsets"


def topics(*raw_names: str) -> dict[str, tuple[str, ...]]:
    return {topic.name: topic.tools for topic in topics_of({name: raw for raw, name in tool_names(raw_names).items()})}


def test_a_topic_is_what_the_tools_do_something_with_and_not_what_they_do() -> None:
    assert topics(
        "create_issue", "list_issues", "update_issue", "create_branch", "list_branches", "delete_branch", "whoami"
    ) == {
        "branch": ("create_branch", "delete_branch", "list_branches"),
        "issue": ("create_issue", "list_issues", "update_issue"),
        "others": ("whoami",),
    }


def test_a_verb_that_nobody_foresaw_is_one_since_things_follow_it() -> None:
    things = ("issue", "branch", "label")
    assert set(topics(*(f"{verb}_{thing}" for verb in ("get", "list", "add", "yeet") for thing in things))) == set(
        things
    )


def test_a_word_that_can_be_a_verb_is_a_thing_behind_a_verb() -> None:
    assert topics(
        "get_pull_request", "mergePullRequest", "list-pull-requests", "get_user", "list_users", "add_user"
    ) == {
        "pull request": ("get_pull_request", "list_pull_requests", "mergePullRequest"),
        "user": ("add_user", "get_user", "list_users"),
    }


def test_what_all_names_share_is_no_topic() -> None:
    assert topics(*(f"hub-{verb}-{thing}" for verb in ("get", "list", "create") for thing in ("deal", "contact"))) == {
        "contact": ("hub_create_contact", "hub_get_contact", "hub_list_contact"),
        "deal": ("hub_create_deal", "hub_get_deal", "hub_list_deal"),
    }


def test_verbs_may_stand_at_the_end() -> None:
    assert set(topics("disk_get", "disk_list", "disk_delete", "kusto_query", "kusto_table_get", "kusto_list")) == {
        "disk",
        "kusto",
    }


def test_a_large_topic_is_split_by_the_next_word() -> None:
    cards = [
        f"{verb}_card{part}" for verb in ("get", "list", "set", "add") for part in ("", "_param", "_link", "_face_side")
    ]
    found = topics(
        *cards,
        *(f"{verb}_card_{verb}ing" for verb in ("merge", "clear", "save", "load", "move")),
        *(f"{verb}_user_{n}" for n in "abcdefgh" for verb in ("get", "set")),
    )
    assert {name: len(tools) for name, tools in found.items()} == {
        "card": 9,
        "card link": 4,
        "card param": 4,
        "card face side": 4,
        "user": 16,
    }


def test_two_of_a_kind_are_a_topic_and_a_tool_joins_what_it_names_further_back() -> None:
    assert topics("get_issue", "list_issues", "add_issue", "get_board_issues", "get_label", "add_label", "ping") == {
        "issue": ("add_issue", "get_board_issues", "get_issue", "list_issues"),
        "label": ("add_label", "get_label"),
        "others": ("ping",),
    }


@pytest.mark.parametrize(
    "names", [(), ("hset", "hget", "zadd", "lpush", "expire"), ("get_issue", "list_issues", "create_issue")]
)
def test_names_without_topics_have_none(names: tuple[str, ...]) -> None:
    assert topics(*names) == {}


def test_a_topic_is_named_as_the_names_write_it() -> None:
    assert set(topics("postgres_get", "postgres_list", "workbooks_get", "workbooks_list", "postgres_add")) == {
        "postgres",
        "workbooks",
    }


def test_the_order_of_the_listing_changes_nothing() -> None:
    names = [
        f"{verb}_{thing}" for verb in ("get", "list", "add") for thing in ("issue", "issue_label", "label", "user")
    ]
    assert topics(*names) == topics(*reversed(names))


def test_names_of_any_shape_make_topics_of_bounded_work() -> None:
    hostile = ["_" * 300, "查询" * 90, *(f"a{number}_b{number}_{'c_' * 60}{number}" for number in range(3_000))]
    found = topics_of(dict(zip(map(str, range(len(hostile))), hostile, strict=True)))
    assert sum(len(topic.tools) for topic in found) in (0, len(hostile))


@pytest.mark.skipif(not TOOLSETS.exists(), reason=f"no published toolsets in {TOOLSETS}")
def test_every_tool_of_published_servers_is_in_one_topic_and_most_in_one_that_says_something() -> None:
    grouped = 0
    for path in TOOLSETS.glob("*.json"):
        names = tool_names([tool["name"] for tool in json.loads(path.read_text())["tools"]])
        found = topics_of({name: raw for raw, name in names.items()})
        if len(names) > 30 and found:
            grouped += 1
            assert sorted(tool for topic in found for tool in topic.tools) == sorted(names.values())
            others = next((topic for topic in found if topic.name == "others"), Topic("", ()))
            assert len(others.tools) <= 0.5 * len(names), path.name
    assert grouped >= 8
