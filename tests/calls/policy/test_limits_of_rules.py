"""A rule with a limit decides as it says until the limit is reached; then it denies."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.limits import Limits
from codemode_server.calls.policy.policy import Policy
from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import PermissionSettings, Settings
from codemode_server.domain.calls import CallOutcome, CallStatus, Decision, Deny, Recorded
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.support.redaction import NO_SECRETS

CATALOG = Catalog.build(
    [UpstreamListing("mail", UpstreamState.READY, (ToolDefinition("send"), ToolDefinition("draft")))]
)


def target(name: str = "send") -> ToolTarget:
    return ToolTarget(CATALOG.server("mail"), CATALOG.tool("mail", name))


def settings(*rules: dict[str, str]) -> Settings:
    return Settings(permissions=PermissionSettings.model_validate({"rules": list(rules)}))


class Product:
    """A policy with a clock of its own."""

    def __init__(self, *rules: dict[str, str]) -> None:
        self.now = 0.0
        self.config = LiveConfig(settings(*rules))
        self.policy = Policy(self.config)
        self.limits = Limits(self.config, self.policy, now=lambda: self.now)

    def execution(self, principal: str = "me") -> ExecutionCalls:
        context = Caller(Principal(PrincipalId(principal)), Session("s1"), self.config)
        return ExecutionCalls(ExecutionId("x1"), context)

    def decide(self, calls: ExecutionCalls, name: str = "send", **arguments: Any) -> Decision:
        return self.decide_again(calls, set(), name, **arguments)

    def decide_again(self, calls: ExecutionCalls, counted: set[str], name: str = "send", **arguments: Any) -> Decision:
        return self.limited(calls, self.policy.decide(calls, target(name), arguments), counted, name, **arguments)

    def limited(
        self, calls: ExecutionCalls, decided: Decision, counted: set[str], name: str = "send", **arguments: Any
    ) -> Decision:
        decision, limits = self.limits.decision(calls, target(name), [arguments], decided, counted)
        self.limits.count(calls, limits, counted)
        return decision

    def kinds(self, calls: ExecutionCalls, count: int) -> list[str]:
        return [self.decide(calls).kind for _ in range(count)]


def test_calls_beyond_it_are_denied_with_the_limit_in_the_reason() -> None:
    product = Product({"allow": "mail/send", "limit": "2/minute"})
    calls = product.execution()
    assert product.kinds(calls, 2) == ["allow", "allow"]
    product.now = 20.5
    assert product.decide(calls) == Deny(
        "rule 1 of permissions.rules (allow: mail/send, limit: 2/minute): its limit of 2/minute is reached; the next "
        "call is possible in 40 s",
        advice="",
    )


def test_each_call_counts_for_the_time_of_the_limit() -> None:
    product = Product({"allow": "mail", "limit": "2/minute"})
    calls = product.execution()
    product.decide(calls)
    product.now = 30.0
    assert product.kinds(calls, 2) == ["allow", "deny"]
    product.now = 60.0
    assert product.kinds(calls, 9) == ["allow"] + ["deny"] * 8
    product.now = 90.0
    assert product.decide(calls).kind == "allow", "denied calls do not count"


def test_a_limit_for_an_execution_starts_anew_with_the_next() -> None:
    product = Product({"allow": "mail", "limit": "1/execution"})
    calls = product.execution()
    assert product.decide(calls).kind == "allow"
    assert product.decide(calls) == Deny(
        "rule 1 of permissions.rules (allow: mail, limit: 1/execution): its limit of 1/execution is reached; the next "
        "call is possible in another program",
        advice="",
    )
    assert product.decide(product.execution()).kind == "allow"


def test_a_limit_for_a_time_holds_for_all_executions_of_a_principal_and_no_other_s() -> None:
    product = Product({"allow": "mail", "limit": "1/hour"})
    assert product.decide(product.execution("me")).kind == "allow"
    assert product.decide(product.execution("me")).kind == "deny"
    assert product.decide(product.execution("you")).kind == "allow"


def test_a_call_that_something_else_denies_does_not_count() -> None:
    product = Product({"allow": "mail", "limit": "1/execution"})
    calls = product.execution()
    assert product.limited(calls, Deny("no drafts"), set(), "draft") == Deny("no drafts")
    assert product.decide(calls).kind == "allow"
    assert product.decide(calls).kind == "deny", "control"


def test_what_an_earlier_run_made_exceeds_none_and_counts_for_the_execution() -> None:
    product = Product({"allow": "mail", "limit": "1/execution"})
    calls = product.execution()
    replay = Recorded(CallOutcome(CallStatus.SUCCEEDED, 1.0), "call 1 of the earlier run")
    assert [product.limited(calls, replay, set()) for _ in range(2)] == [replay, replay]
    assert product.decide(calls).kind == "deny"


def test_an_edit_that_leaves_a_rule_as_it_is_forgets_no_calls() -> None:
    product = Product({"allow": "mail", "limit": "1/hour"})
    calls = product.execution()
    product.decide(calls)
    product.config.replace(settings({"deny": "slack"}, {"allow": "mail", "limit": "1/hour"}), NO_SECRETS)
    assert product.decide(calls).kind == "deny"
    product.config.replace(settings({"allow": "mail", "limit": "1/minute"}), NO_SECRETS)
    assert product.decide(calls).kind == "allow", "control: another limit counts anew"


@pytest.mark.parametrize("time", ["hour", "execution"])
def test_an_edit_of_the_number_forgets_no_calls(time: str) -> None:
    product = Product({"allow": "mail", "limit": f"1/{time}"})
    calls = product.execution()
    product.decide(calls)
    product.config.replace(settings({"allow": "mail", "limit": f"3/{time}"}), NO_SECRETS)
    assert product.kinds(calls, 3) == ["allow", "allow", "deny"]
    product.config.replace(settings({"allow": "mail", "limit": f"2/{time}"}), NO_SECRETS)
    assert product.decide(calls).kind == "deny"


def test_a_call_that_is_decided_again_is_counted_once_by_each_limit_and_by_one_that_an_edit_brought() -> None:
    product = Product({"allow": "mail/send", "limit": "3/minute"})
    calls, counted = product.execution(), set[str]()
    assert [product.decide_again(calls, counted).kind for _ in range(5)] == ["allow"] * 5
    product.config.replace(settings({"allow": "mail/send", "limit": "1/execution"}), NO_SECRETS)
    assert product.decide_again(calls, counted).kind == "allow"
    assert product.decide(calls).kind == "deny"
    assert len(counted) == 2
