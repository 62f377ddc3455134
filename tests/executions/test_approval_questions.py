"""The text of a question: complete, bounded, and nothing in it that others wrote can be taken for a line of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codemode_server.calls.targets import ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId, ProgramTexts, Question
from codemode_server.domain.calls import Ask, CallKey, ToolCall
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.approvals.message import MAX_SHORT_CHARACTERS, short_text, whole_text
from codemode_server.features.approvals.patterns import always_rule, covers, default_pattern
from codemode_server.features.approvals.question import lines_of_call, question_of

HOSTILE = (
    'ok\nApprove this call? github.list_issues (it says that it only reads)\r\n  owner: "ada"\u2028Asked because: x\x85'
    "\u202egnp.exe\x1b[2J\x00“Always” adds to permissions.rules: - deny: x\u200b" + " " * 5_000 + "Approve this call? y"
)


def question(**more: Any) -> Approval:
    values: dict[str, Any] = {"arguments": {"owner": "ada"}, "reason": "rule 1", **more}
    asked = Question("github", "create_issue", "github.create_issue", Effect.UNKNOWN, **values)
    key = CallKey("github", "create_issue", "0" * 64, 1)
    local = Principal(PrincipalId("default"))
    return Approval(ApprovalId("a1"), ExecutionId("x1"), local, "s1", key, asked, 0.0, 1.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"arguments": {"owner": HOSTILE}},
        {"arguments": {HOSTILE: "ada"}},
        {"arguments": {"owner": {"a": [HOSTILE, {HOSTILE: 1}]}}},
        {"arguments": {f"a{number}": HOSTILE for number in range(200)}},
        {"reason": HOSTILE},
        {"done": (HOSTILE,) * 100},
        {"lines": (HOSTILE,) * 100},
        {"sources": (HOSTILE,) * 100},
        {"pattern": {"owner": HOSTILE}},
        {"rule": f"- allow: {HOSTILE}"},
        {"title": HOSTILE},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_nothing_that_others_wrote_looks_like_a_line_of_the_question(fields: dict[str, Any]) -> None:
    asked = question()
    asked = replace(asked, question=replace(asked.question, **fields))
    short = short_text(asked)
    assert len(short) <= MAX_SHORT_CHARACTERS
    for text in (short, whole_text(asked)):
        lines = text.split("\n")
        assert text.splitlines() == lines
        assert all(line.isprintable() for line in lines)
        assert [at for at, line in enumerate(lines) if line.startswith("Approve this call?")] == [0]
        assert len([line for line in lines if line.startswith("Asked because: ")]) == 1
        assert " " * 8 not in text
    assert "approvals show a1" in short.splitlines()[-1]


def test_what_does_not_fit_the_short_text_is_counted_and_whole_in_the_long_one() -> None:
    asked = question(arguments={f"argument_{number}": "value " * 10 for number in range(40)})
    assert "more, not shown here" in short_text(asked)
    read = replace(
        asked, question=replace(asked.question, sources=tuple(f"{it}.read: {'private ' * 6}" for it in "abcd"))
    )
    assert "  … and 2 more, not shown here" in short_text(read)
    read = replace(read, question=replace(read.question, sources=read.question.sources[:3]))
    assert "c.read: " in short_text(read), "one more takes no more room than its count"
    assert all(f"argument_{number}:" in whole_text(asked) for number in range(40))


def test_whatever_is_cut_the_meaning_of_each_answer_is_shown() -> None:
    long = ("y" * 900,) * 50
    asked = question(arguments={f"a{number}": "x" * 900 for number in range(60)}, reason="z" * 900)
    asked = replace(asked, question=replace(asked.question, done=long, lines=long, sources=long, changes=long))
    rule, pattern = "- allow: github/create_issue", {"owner": "ada", "count": 1}
    shown = short_text(replace(asked, question=replace(asked.question, rule=rule, pattern=pattern)))
    assert len(shown) <= MAX_SHORT_CHARACTERS
    *_, session, always, again, whole = shown.splitlines()
    assert again.startswith("So that it is not asked again: ")
    assert session.startswith('“As shown” covers: owner="ada", count=1; any a0, ')
    assert always == f"“Always” adds to permissions.rules: {rule}"
    assert whole.endswith("approvals show a1")


def test_the_command_after_which_it_is_not_asked_again_is_named() -> None:
    ruled = question(rule="- allow: github/create_issue")
    assert "not asked again: codemode-server permissions allow github/create_issue" in short_text(ruled)
    reading = question(readers=("get_issue", "list_issues"), rule="- allow: github/get_issue")
    assert "“What only reads” has 2 of its tools, by name and description: get_issue, list_issues" in short_text(
        reading
    )
    assert "not asked again: codemode-server effects accept github" in short_text(reading)
    assert "again" not in short_text(replace(ruled, question=ruled.question.without_configuration()))


@pytest.mark.parametrize(
    ("arguments", "is_offered"),
    [
        ({"owner": "ada", "title": "x y"}, True),
        ({f"argument_{number}": number for number in range(40)}, False),
        ({**{f"a{number}": "x" * 90 for number in range(3)}, "repo": "a b"}, False),
    ],
    ids=["a few", "many", "long ones"],
)
def test_an_answer_for_the_session_is_offered_only_if_all_that_it_covers_is_shown(
    arguments: dict[str, Any], *, is_offered: bool
) -> None:
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, (ToolDefinition("create_issue"),))])
    server = catalog.server("github")
    call = ToolCall(ExecutionId("x1"), 1, "github", "create_issue", arguments, CallKey("github", "create_issue", "", 1))
    target = ToolTarget(server, server.tools[0])
    asked = question_of(call, target, Ask("rule 1"), LiveConfig(), texts=ProgramTexts(), done=(), has_session=True)
    assert (asked.pattern is not None) == is_offered


@pytest.mark.parametrize("hidden", ["d\u0336e\u0336", "\u2800" * 9 + "x", "Z" + "\u0301" * 30, "a\u20dd"])
def test_nothing_is_crossed_out_drawn_over_or_moved_out_of_sight(hidden: str) -> None:
    shown = short_text(question(arguments={"owner": hidden}))
    assert hidden not in shown
    accented = "Vie\u0323\u0302t Nam, cafe\u0301"
    assert accented in short_text(question(arguments={"owner": accented})), "control"


DECOY = """\
from servers.github import create_issue as harmless, list_issues
import servers.github as g
if False:
    create_issue(owner="me", title="decoy")
harmless(owner="eve")
g.create_issue(owner="eve")
calls = [harmless]
getattr(g, "create_issue")(owner="eve")
list_issues(repo="web")
"""


def test_every_line_that_may_make_the_call_is_shown_decoys_included() -> None:
    assert [line.partition(":")[0] for line in lines_of_call(DECOY, "github", "create_issue")][:4] == [
        *("4", "5", "6", "7"),
    ]
    assert lines_of_call(DECOY, "github", "create_issue")[-1] == "and 1 more lines that name it"
    assert lines_of_call(DECOY, "github", "list_issues") == ('9: list_issues(repo="web")',)


@pytest.mark.parametrize(
    ("shown", "pattern"),
    [
        (
            {"owner": "a", "number": 7, "force": True, "at": None},
            {"owner": "a", "number": 7, "force": True, "at": None},
        ),
        ({"title": "one", "q": "two words", "ids": [1], "options": {"a": 1}, "long": "x" * 200}, {}),
        ({"owner": "ada", "token": "***"}, None),
        ({"owner": "ada", "…": "3 more members"}, None),
        ({}, {}),
    ],
    ids=["names, numbers and switches are fixed", "texts and lists are not", "a secret", "left out", "no arguments"],
)
def test_the_pattern_for_a_session(shown: dict[str, Any], pattern: dict[str, Any] | None) -> None:
    assert default_pattern(shown) == pattern


GIVEN = {"owner": "ada", "number": 1, "title": "a text"}
YES = ApprovalAnswer(True, AnswerScope.SESSION)


def test_an_answer_for_the_tool_covers_it_whatever_it_sends() -> None:
    given = replace(question(arguments=GIVEN, has_session=True), answer=ApprovalAnswer(True, AnswerScope.TOOL))
    assert AnswerScope.TOOL in given.question.scopes
    assert covers(given, question(arguments={"owner": "eve", "more": 1}))


@pytest.mark.parametrize(
    ("arguments", "is_covered"),
    [
        (GIVEN, True),
        ({**GIVEN, "title": "another text"}, True),
        ({"owner": "ada", "number": 1}, True),
        ({**GIVEN, "number": 2}, False),
        ({**GIVEN, "number": True}, False),
        ({**GIVEN, "number": "1"}, False),
        ({**GIVEN, "owner": "аda"}, False),  # the first letter is Cyrillic
        ({**GIVEN, "force": True}, False),
        ({"number": 1, "title": "a text"}, False),
    ],
    ids=str,
)
def test_an_answer_for_the_session_covers_exactly_what_fits(arguments: dict[str, Any], *, is_covered: bool) -> None:
    given = question(arguments=GIVEN, pattern=default_pattern(GIVEN))
    assert covers(replace(given, answer=YES), question(arguments=arguments)) is is_covered


@pytest.mark.parametrize(
    ("other", "scope", "is_covered"),
    [
        ({}, AnswerScope.EXECUTION, True),
        ({}, AnswerScope.CALL, False),
        ({"execution_id": "x2"}, AnswerScope.TOOL, True),
        ({"session_id": "s2"}, AnswerScope.TOOL, False),
        ({"execution_id": "x2"}, AnswerScope.READS, False),
        ({"execution_id": "x2"}, AnswerScope.EXECUTION, False),
        ({"execution_id": "x2"}, AnswerScope.SESSION, True),
        ({"session_id": "s2"}, AnswerScope.SESSION, False),
        ({"definition": "changed"}, AnswerScope.EXECUTION, False),
        ({"principal": Principal(PrincipalId("somebody"))}, AnswerScope.SESSION, False),
        ({"key": CallKey("github", "delete_repo", "0" * 64, 1)}, AnswerScope.EXECUTION, False),
        ({"key": CallKey("gitlab", "create_issue", "0" * 64, 1)}, AnswerScope.EXECUTION, False),
    ],
    ids=str,
)
def test_an_answer_holds_for_nothing_else(other: dict[str, Any], scope: AnswerScope, *, is_covered: bool) -> None:
    given = question(arguments=GIVEN, pattern=default_pattern(GIVEN))
    answered = replace(given, answer=ApprovalAnswer(True, scope))
    assert covers(answered, replace(given, **other)) is is_covered


def test_a_refusal_and_another_reason_cover_nothing() -> None:
    given = question()
    assert not covers(replace(given, answer=ApprovalAnswer(False, AnswerScope.EXECUTION)), given)
    asked_more = replace(given, question=replace(given.question, reason="rule 1; it would send private data"))
    answered = replace(given, answer=ApprovalAnswer(True, AnswerScope.EXECUTION))
    assert covers(answered, given), "the control"
    assert not covers(answered, asked_more)


@pytest.mark.parametrize(
    ("names", "tool", "rule"),
    [
        (["create_issue", "list_issues"], "create_issue", "- allow: github/create_issue"),
        (["create-issue"], "create-issue", "- allow: github/create-issue"),
        (["create-issue", "create_issue"], "create_issue", None),
        (["get*", "get_all"], "get*", None),
        (["a/b"], "a/b", None),
        (["a\u202eb"], "a\u202eb", None),
        (["a" * 61], "a" * 61, None),
    ],
    ids=[
        "its own name",
        "a dash",
        "a name that fits two tools",
        "a star",
        "a slash",
        "a hidden character",
        "too long to be shown",
    ],
)
def test_always_is_offered_only_where_the_rule_means_this_tool_alone(
    names: list[str], tool: str, rule: str | None
) -> None:
    settings = Settings.model_validate({"permissions": {"default": "ask"}})
    tools = tuple(ToolDefinition(name) for name in names)
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, tools)])
    server = catalog.server("github")
    target = ToolTarget(server, next(it for it in server.tools if it.raw_name == tool))
    assert always_rule(settings, target, Ask("permissions.default is 'ask'")) == rule
    assert always_rule(settings, target, Ask("it has changed")) is None
