"""The verdict on one call: the first rule that matches decides, else the default; no spelling slips past a `deny`."""

from __future__ import annotations

import pytest

from codemode_server.gateway.policy import Names, Verdict, judge
from codemode_server.settings import PermissionRule, PermissionSettings

GITHUB = Names("github", "github")


def permissions(*rules: dict[str, str], default: str = "allow") -> PermissionSettings:
    return PermissionSettings.model_validate({"default": default, "rules": list(rules)})


def tool(name: str) -> Names:
    return Names(name, name.replace("-", "_"))


class TestTheFirstRuleThatMatches:
    def test_decides_over_a_later_one(self) -> None:
        rules = permissions({"allow": "github/get_*"}, {"deny": "github/*"})
        assert judge(rules, GITHUB, tool("get_issue")).answer == "allow"
        assert judge(rules, GITHUB, tool("delete_repo")).answer == "deny"

    def test_is_named_in_the_verdict_with_its_reason(self) -> None:
        rules = permissions({"allow": "slack"}, {"deny": "github/delete_*", "reason": "not on Fridays"})
        assert judge(rules, GITHUB, tool("delete_repo")) == Verdict(
            "deny", "rule 2 of permissions.rules (deny: github/delete_*): not on Fridays"
        )

    def test_without_a_slash_covers_every_tool_of_the_server(self) -> None:
        assert judge(permissions({"deny": "git*"}), GITHUB, tool("anything")).answer == "deny"

    def test_matches_a_tool_on_any_server_with_a_star(self) -> None:
        rules = permissions({"deny": "*/delete_*"})
        assert judge(rules, Names("other", "other"), tool("delete_all")).answer == "deny"


class TestWhenNoRuleMatches:
    @pytest.mark.parametrize("default", ["allow", "deny", "ask"])
    def test_the_default_decides_and_is_named(self, default: str) -> None:
        verdict = judge(permissions(default=default), GITHUB, tool("get_issue"))
        assert verdict == Verdict(default, f"permissions.default is {default!r}")  # type: ignore[arg-type]


class TestNeitherSpelling:
    """A tool has the upstream's name and Python's; a person writes either into a rule."""

    @pytest.mark.parametrize("pattern", ["notion/delete-page", "notion/delete_page"])
    def test_slips_past_a_deny(self, pattern: str) -> None:
        assert judge(permissions({"deny": pattern}), Names("notion", "notion"), tool("delete-page")).answer == "deny"


def test_ask_lets_nothing_through_yet() -> None:
    verdict = judge(permissions({"ask": "github/*"}), GITHUB, tool("get_issue"))
    assert (verdict.answer, verdict.lets_through) == ("ask", False)


def test_a_rule_has_exactly_one_answer() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        PermissionRule(allow="a", deny="b")
