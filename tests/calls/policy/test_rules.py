"""The decision on one call: the first rule that matches decides, else the default; no spelling slips past a `deny`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codemode_server.calls.policy.conditions import Arguments
from codemode_server.calls.policy.names import Spellings
from codemode_server.calls.policy.refusals import require_not_denied
from codemode_server.calls.policy.rules import PermissionRules, RuleDecision, Subject, deciding_rule
from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.settings import PermissionSettings
from codemode_server.domain.calls import Allow, Ask, Deny
from codemode_server.domain.errors import CallRefused
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.support.setting_types import RuleEffect

GITHUB = Spellings("github", "github")
CATALOG = Catalog.build([UpstreamListing("github", UpstreamState.READY, (ToolDefinition("get_issue"),))])


def permissions(*rules: dict[str, str], default: str = "allow") -> PermissionSettings:
    return PermissionSettings.model_validate({"default": default, "rules": list(rules)})


def decide(
    rules: PermissionSettings, server: Spellings, tool: Spellings, effect: RuleEffect = "write", **arguments: Any
) -> RuleDecision:
    subject, known = Subject(server, tool, effect), PermissionRules(rules)
    rule = deciding_rule(known.relevant(subject), Arguments(arguments))
    return known.otherwise(effect) if rule is None else rule.decision


def tool(name: str) -> Spellings:
    return Spellings(name, name.replace("-", "_"))


class TestTheFirstRuleThatMatches:
    def test_decides_over_a_later_one(self) -> None:
        rules = permissions({"allow": "github/get_*"}, {"deny": "github/*"})
        assert decide(rules, GITHUB, tool("get_issue")).kind == "allow"
        assert decide(rules, GITHUB, tool("delete_repo")).kind == "deny"

    def test_is_named_in_the_decision_with_its_reason(self) -> None:
        rules = permissions({"allow": "slack"}, {"deny": "github/delete_*", "reason": "not on Fridays"})
        assert decide(rules, GITHUB, tool("delete_repo")) == Deny(
            "rule 2 of permissions.rules (deny: github/delete_*): not on Fridays"
        )


class TestWhenNoRuleMatches:
    @pytest.mark.parametrize(("default", "expected"), [("allow", Allow), ("deny", Deny), ("ask", Ask)])
    def test_the_default_decides_and_is_named(self, default: str, expected: type[Allow | Deny | Ask]) -> None:
        decision = decide(permissions(default=default), GITHUB, tool("get_issue"))
        assert decision == expected(f"permissions.default is {default!r}")


class TestNeitherSpelling:
    """A tool has the upstream's name and Python's; a person writes either into a rule."""

    @pytest.mark.parametrize("pattern", ["notion/delete-page", "notion/delete_page"])
    def test_slips_past_a_deny(self, pattern: str) -> None:
        assert decide(permissions({"deny": pattern}), Spellings("notion", "notion"), tool("delete-page")).kind == "deny"


RESOURCE = Spellings("resources/read", "read_resource", also=("resources/any",))


@pytest.mark.parametrize(
    ("more", "refused_by", "not_by"),
    [
        ({"to_refuse": ("resources/secret",)}, ["resources/secret"], ["resources/other"]),
        (
            {"unknown_below": "resources/"},
            ["resources/secret", "resources/s*", "res*", "*secret", "r*"],
            ["delete_*", "resources", "res"],
        ),
    ],
    ids=["more names", "too many names to find"],
)
def test_names_that_a_call_may_have_decide_rules_that_refuse_and_none_that_allows(
    more: dict[str, Any], refused_by: list[str], not_by: list[str]
) -> None:
    """A call may be more than was named: a resource has one URI, and several templates that give it."""
    named = replace(RESOURCE, **more)
    for answer in ("deny", "ask"):
        assert {decide(permissions({answer: f"github/{it}"}), GITHUB, named).kind for it in refused_by} == {answer}
        assert {decide(permissions({answer: f"github/{it}"}), GITHUB, named).kind for it in not_by} == {"allow"}
    for allowed, kind in (("secret", "deny"), ("any", "allow")):
        rules = permissions({"allow": f"github/resources/{allowed}"}, default="deny")
        assert decide(rules, GITHUB, named).kind == kind


def test_a_call_that_a_person_has_to_approve_is_not_denied_yet() -> None:
    decision = decide(permissions({"ask": "github/*"}), GITHUB, tool("get_issue"))
    assert decision.kind == "ask"
    target = ToolTarget(CATALOG.server("github"), CATALOG.tool("github", "get_issue"))
    require_not_denied(target, decision)
    with pytest.raises(CallRefused):  # control
        require_not_denied(target, decide(permissions({"deny": "github/*"}), GITHUB, tool("get_issue")))


ASKS = {"ask": "github/create_*", "reason": "public"}


@pytest.mark.parametrize(
    ("rules", "default", "reason", "place"),
    [
        ([{"deny": "x"}, ASKS], "allow", "rule 2 of permissions.rules (ask: github/create_*): public", 1),
        ([{"deny": "x"}], "ask", "permissions.default is 'ask'", 1),
        ([{**ASKS, "when": "args.a == 1"}], "allow", "rule 1 of permissions.rules", None),
        ([{**ASKS, "limit": "5/hour"}], "allow", "rule 1 of permissions.rules", None),
        ([ASKS], "allow", "rule 1 of permissions.rules (ask: github/*)", None),
        ([{"deny": "x"}], "allow", "permissions.default is 'ask'", None),
        ([ASKS], "allow", "rule 1 of permissions.rules (ask: github/create_*): public; it has changed", None),
    ],
    ids=["a rule", "the default", "a condition", "a limit", "another rule", "another default", "another step as well"],
)
def test_where_a_rule_decides_on_what_was_asked_and_on_nothing_else(
    rules: list[dict[str, str]], default: str, reason: str, place: int | None
) -> None:
    """A rule without the condition or the limit of the one that asked would allow more than that asked about."""
    known = PermissionRules(permissions(*rules, default=default))
    if place is None and len(rules[0]) > 2:
        reason = known.rules[0].decision.reason
    assert known.place_before_asking(reason) == place


def test_a_preset_that_asks_comes_behind_all_rules() -> None:
    known = PermissionRules(PermissionSettings.model_validate({"preset": "careful", "rules": [{"deny": "x"}]}))
    assert known.place_before_asking(known.otherwise("write").reason) == 1
    assert known.place_before_asking(known.otherwise("read").reason) is None, "that one allows"
