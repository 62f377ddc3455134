"""A permission rule with a mistyped tool is reported; one that is a precaution, or that can't be judged, is not. So is
one that refuses a call by the spelling of a text."""

from __future__ import annotations

import pytest

from codemode_server.calls.policy.explanation import rules_by_spelling, rules_without_tools
from codemode_server.calls.policy.settings import PermissionSettings
from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState


def catalog() -> Catalog:
    tools = (ToolDefinition("git_reset"), ToolDefinition("git-log"), ToolDefinition("get_items"))
    return Catalog.build(
        [
            UpstreamListing("git", UpstreamState.READY, tools),
            UpstreamListing("files", UpstreamState.READY, (ToolDefinition("read_file"),)),
            UpstreamListing("down", UpstreamState.FAILED),
        ]
    )


def warnings(*rules: dict[str, str]) -> list[str]:
    permissions = PermissionSettings.model_validate({"rules": list(rules)})
    return list(rules_without_tools(permissions, catalog()))


@pytest.mark.parametrize("answer", ["deny", "ask", "allow"])
def test_a_mistyped_tool_is_reported_with_the_one_that_was_meant(answer: str) -> None:
    assert warnings({"deny": "git/git_reset"}, {answer: "git/git_rest"}) == [
        f"permissions.rules[rule 2].{answer}: matches no tool of git; did you mean 'git_reset'?"
    ]
    assert warnings({answer: "git/git_rest*"})[0].endswith("did you mean 'git_reset'?"), "a glob as well"


def test_a_tool_that_no_other_resembles_is_reported_without_a_guess() -> None:
    assert warnings({"deny": "git/push_force"}) == ["permissions.rules[rule 1].deny: matches no tool of git"]


def test_a_tool_in_place_of_its_server_is_reported_with_the_whole_pattern() -> None:
    told = "permissions.rules[rule 1].allow: matches no server, but a tool; write git/git_reset"
    assert warnings({"allow": "git_reset"}, {"allow": "nowhere"}) == [told]


MATCHING = ["git/git_reset", "git/git-log", "git/git_log", "git/*_reset", "git", "git/*", "*/read_file", "*/git_*"]
PRECAUTIONS = ["git/delete_*", "*/push_force"]
OF_UNKNOWN_TOOLS = ["down/git_rest", "*/git_rest", "nowhere/x"]
OF_NO_TOOL = ["git/resources/git://x", "git/read_resource"]


@pytest.mark.parametrize("pattern", [*MATCHING, *PRECAUTIONS, *OF_UNKNOWN_TOOLS, *OF_NO_TOOL])
def test_no_other_rule_is_reported(pattern: str) -> None:
    assert warnings({"deny": pattern}) == []


@pytest.mark.parametrize(
    ("when", "is_reported"),
    [
        ('args.to == "eve@x.org"', True),
        ("'eve' == args.to", True),
        ('args.to in ["eve", "mallory"]', True),
        ('size(args.body) > 3 || args.path.startsWith("/etc")', True),
        ('args.path.matches("^/etc")', True),
        ("args.to == 'acme!' || args.to == \"x'!\"", True),
        ('args.to != "acme"', False),
        ('!(args.to in ["acme"])', False),
        ('!args.path.startsWith("/workspace/")', False),
        ("args.amount > 1000", False),
        ("args.amount == 5", False),
    ],
)
def test_a_rule_that_refuses_by_the_spelling_of_a_text_is_reported_with_the_form_that_allows(
    when: str, is_reported: bool
) -> None:
    rules = [{"allow": "git", "when": when}, {"deny": "mail/send", "when": when}]
    told = list(rules_by_spelling(PermissionSettings.model_validate({"rules": rules})))
    assert [line.split(":")[0] for line in told] == ["permissions.rules[rule 2].when"] * is_reported
    assert all("`allow: mail/send` with `when: args.NAME in" in line for line in told)
