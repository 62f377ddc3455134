"""Mistakes in permission rules are told with their line and their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.config.conftest import Folder

RULE = ":3: permissions.rules[0]"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            "{allow: a, when: 'args.x ='}",
            f"{RULE}.when: is not a condition in CEL: at character 8: token recognition error at: '='",
        ),
        (
            "{allow: a, when: arg.x}",
            f"{RULE}.when: is not a condition in CEL: at character 4: undeclared reference to 'arg.x'",
        ),
        ("{allow: a, when: args}", f"{RULE}.when: must be true or false, and gives map<string, dyn>"),
        ("{allow: a, limit: 10}", f"{RULE}.limit: must be text, not a number; put it in quotes"),
        (
            "{allow: a, limit: 10/fortnight}",
            f"{RULE}.limit: is not of the form `10/minute`; the times are second, minute, hour, day, execution",
        ),
        (
            "{allow: a, limit: 0/minute}",
            f"{RULE}.limit: is not of the form `10/minute`; the times are second, minute, hour, day, execution",
        ),
        ("{deny: a, limit: 1/minute}", f"{RULE}.limit: has no meaning in a rule that denies"),
        ("{server: a}", f"{RULE}: give exactly one of `allow`, `deny`, `ask`, `decision`"),
        ("{deny: a, decision: deny}", f"{RULE}: give exactly one of `allow`, `deny`, `ask`, `decision`"),
        ("{deny: a, tool: b}", f"{RULE}.tool: belongs to a rule with `decision`; write `deny: server/tool`"),
        (
            "{decision: deny, server: a/b}",
            f"{RULE}.server: is the name of a server; the name of the tool belongs to `tool`",
        ),
        ("{decision: deny, tool: 'a b'}", f"{RULE}.tool: the glob contains white space"),
        ("{decision: denied}", f"{RULE}.decision: must be one of 'allow', 'deny', 'ask'; did you mean 'deny'?"),
        (
            "{deny: a, effect: writes}",
            f"{RULE}.effect: must be one of 'read', 'write', 'destructive'; did you mean 'write'?",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_one_sentence_on_its_line(folder: Folder, rule: str, told: str) -> None:
    assert folder.refusal(f"permissions:\n  rules:\n    - {rule}\n") == [f"upstream.yaml{told}"]


def test_a_rule_with_everything_is_understood(folder: Folder) -> None:
    rule = "{server: s*, tool: create_*, effect: write, when: 'args.n < 5', limit: 5/hour, decision: ask, reason: why}"
    (found,) = folder.load(f"permissions:\n  rules:\n    - {rule}\n").settings.permissions.rules
    assert found.text == "ask: s*/create_*, effect: write, when: args.n < 5, limit: 5/hour"
    assert found.reason == "why"
