"""The decision of several steps on one call: the most restrictive answer decides, with the reason of its step."""

from __future__ import annotations

import pytest

from codemode_server.calls.policy.policy import most_restrictive
from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Capture, Decision, Deny, Recorded
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState

CATALOG = Catalog.build([UpstreamListing("github", UpstreamState.READY, (ToolDefinition("create_issue"),))])
TARGET = ToolTarget(CATALOG.server("github"), CATALOG.tool("github", "create_issue"))
REPLAY = Recorded(CallOutcome(CallStatus.SUCCEEDED, 1.0), "recorded")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([Deny("no"), Ask("who knows")], Deny("no")),
        ([Ask("who knows"), Deny("no")], Deny("no")),
        ([Allow("yes"), Ask("who knows")], Ask("who knows")),
        ([Ask("who knows"), Capture("int", "dry run")], Capture("int", "dry run")),
        ([Capture("int", "dry run"), REPLAY], REPLAY),
        ([REPLAY, Deny("no")], Deny("no")),
        ([Deny("first"), Deny("second")], Deny("first")),
        ([Ask("it has changed"), Ask("it leaks"), Ask("it has changed")], Ask("it has changed; it leaks")),
        ([], Allow("permissions.default is 'allow'")),
    ],
)
def test_the_most_restrictive_answer_decides_and_questions_add_up(answers: list[Decision], expected: Decision) -> None:
    allowed = Allow("permissions.default is 'allow'")
    assert most_restrictive([allowed, *answers]) == expected
