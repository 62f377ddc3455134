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


@pytest.mark.parametrize(
    "names", [(), ("hset", "hget", "zadd", "lpush", "expire"), ("get_issue", "list_issues", "create_issue")]
)
def test_names_without_topics_have_none(names: tuple[str, ...]) -> None:
    assert topics(*names) == {}


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
