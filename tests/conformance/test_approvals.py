"""What a store of approvals does, of each database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.approvals import (
    NOBODY,
    AnswerScope,
    Approval,
    ApprovalAnswer,
    ApprovalId,
    Question,
)
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.privacy_tokens import line_with_value
from codemode_server.domain.tools import Effect
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database import DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite import FILE_NAME

LOCAL = Principal(PrincipalId("default"))
SOMEBODY = Principal(PrincipalId("somebody"))
NOW = 1_000_000.0
QUESTION = Question(
    server="github",
    tool="create-issue",
    title="github.create_issue",
    effect=Effect.WRITES,
    reason="rule 1 of permissions.rules (ask: github)",
    arguments={"owner": "ada", "labels": ["é", 1.5, None]},
    done=("github.create_issue(title='a'): succeeded",),
    lines=("3: create_issue(owner='ada')",),
    sources=("gmail.search",),
    pattern={"owner": "ada"},
    rule="- allow: github/create-issue",
)
YES = ApprovalAnswer(True, channel="elicitation", answered_at=NOW + 1)
NO = ApprovalAnswer(False, AnswerScope.CALL, "wrong repository ✓", "command", NOW + 2)


@pytest.fixture
def store(thread: DatabaseThread, tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(thread, JournalCipher(tmp_path))


def approval(name: str, *, digest: str = "d1", execution: str = "x1", session: str = "s1", **more: Any) -> Approval:
    values: dict[str, Any] = {
        "principal": LOCAL,
        "question": QUESTION,
        "asked_at": NOW,
        "expires_at": NOW + 60,
        "definition": "1",
    }
    key = CallKey("github", "create-issue", digest, 1)
    return Approval(ApprovalId(name), ExecutionId(execution), session_id=session, key=key, **{**values, **more})


def names(approvals: Sequence[Approval]) -> list[str]:
    return [it.approval_id for it in approvals]


async def test_the_first_answer_stays_and_is_read_back(store: ApprovalStore) -> None:
    await store.ask(approval("a"))
    assert await store.answer(ApprovalId("a"), NO) == replace(approval("a"), answer=NO)
    assert await store.answer(ApprovalId("a"), YES) == replace(approval("a"), answer=NO)
    assert await store.get(LOCAL, ApprovalId("a")) == replace(approval("a"), answer=NO)
    assert await store.unanswered(LOCAL) == []


@pytest.mark.parametrize(
    "again",
    [
        {"definition": "2"},
        {"question": replace(QUESTION, reason="rule 2")},
        {"principal": SOMEBODY},
    ],
    ids=["another definition of the tool", "another reason", "another principal"],
)
async def test_what_was_answered_for_something_else_is_asked_anew(store: ApprovalStore, again: dict[str, Any]) -> None:
    await store.ask(approval("a"))
    await store.answer(ApprovalId("a"), YES)
    assert (await store.ask(approval("b", **again))).answer is None
    assert await store.get(LOCAL, ApprovalId("a")) is None
    assert (await store.ask(approval("c", **again))).approval_id == "b"


async def test_a_question_that_nobody_answered_in_time_is_asked_anew(store: ApprovalStore) -> None:
    await store.ask(approval("a"))
    await store.answer(ApprovalId("a"), ApprovalAnswer(False, channel=NOBODY))
    assert (await store.ask(approval("b"))).approval_id == "b"
    assert (await store.ask(approval("c", asked_at=NOW + 60))).approval_id == "c", "this one was never settled"


async def test_the_same_call_of_another_execution_is_another_question(store: ApprovalStore) -> None:
    await store.ask(approval("a"))
    await store.answer(ApprovalId("a"), YES)
    assert (await store.ask(approval("b", execution="x2"))).answer is None


async def test_a_question_is_withdrawn_and_an_answer_is_not(store: ApprovalStore) -> None:
    for name, digest in (("a", "d1"), ("b", "d2")):
        await store.ask(approval(name, digest=digest))
    await store.answer(ApprovalId("b"), YES)
    for name in ("a", "b"):
        await store.withdraw(ApprovalId(name))
    assert await store.get(LOCAL, ApprovalId("a")) is None
    assert await store.answer(ApprovalId("a"), YES) is None
    assert (await store.get(LOCAL, ApprovalId("b"))) is not None


async def test_what_privacy_tokens_stand_for_is_in_a_question_until_it_is_answered(store: ApprovalStore) -> None:
    """Other lines of the question stay."""
    line = line_with_value("<EMAIL_1>", "email", "ada@example.org")
    asked = replace(QUESTION, changes=(line, "+ <EMAIL_2> (email) is it", "the tool has changed"))
    await store.ask(approval("a", question=asked))
    assert [it.question for it in await store.unanswered(LOCAL)] == [asked], "the control: the person is to see it"
    await store.answer(ApprovalId("a"), YES)
    (answered,) = await store.answered([ApprovalId("a")])
    assert answered.question == replace(asked, changes=("<EMAIL_1> (email)", *asked.changes[1:]))


async def test_values_of_forgotten_tokens_are_removed_from_open_questions(store: ApprovalStore) -> None:
    lines = tuple(line_with_value(f"<EMAIL_{number}>", "email", f"ada{number}@example.org") for number in (1, 2))
    await store.ask(approval("a", question=replace(QUESTION, changes=lines)))
    await store.ask(approval("c", digest="d3", principal=SOMEBODY, question=replace(QUESTION, changes=lines)))
    await store.drop_values(LOCAL, ["<EMAIL_1>"])
    found = [await store.get(LOCAL, ApprovalId("a")), await store.get(SOMEBODY, ApprovalId("c"))]
    assert [it.question.changes for it in found if it] == [("<EMAIL_1> (email)", lines[1]), lines]


async def test_unanswered_questions_come_oldest_first(store: ApprovalStore) -> None:
    for number in (2, 0, 1):
        await store.ask(approval(f"a{number}", digest=f"d{number}", asked_at=NOW + number))
    await store.answer(ApprovalId("a1"), YES)
    assert names(await store.unanswered(LOCAL)) == ["a0", "a2"]
    assert names(await store.answered([ApprovalId(f"a{number}") for number in range(3)])) == ["a1"]
    assert await store.answered([]) == []


async def test_only_approvals_that_hold_for_more_than_their_call_are_remembered(store: ApprovalStore) -> None:
    for number, answer in enumerate(
        [
            YES,
            replace(YES, scope=AnswerScope.EXECUTION),
            replace(YES, scope=AnswerScope.SESSION),
            replace(YES, scope=AnswerScope.ALWAYS),
            NO,
        ]
    ):
        await store.ask(approval(f"a{number}", digest=f"d{number}", asked_at=NOW + number))
        await store.answer(ApprovalId(f"a{number}"), answer)
    await store.ask(approval("b", digest="d9", session="s2"))
    await store.answer(ApprovalId("b"), replace(YES, scope=AnswerScope.SESSION))
    assert names(await store.remembered(LOCAL, "s1")) == ["a3", "a2", "a1"]
    assert names(await store.remembered(LOCAL, "s2")) == ["b"], "the control"


async def test_of_two_answers_at_once_one_stays(store: ApprovalStore, place: DatabasePlace, tmp_path: Path) -> None:
    """In two processes."""
    thread = DatabaseThread(place)
    stores = {YES: store, NO: ApprovalStore(thread, JournalCipher(tmp_path))}
    for number in range(20):
        name, found = ApprovalId(f"a{number}"), list[Approval | None]()

        async def answer(it: ApprovalAnswer, name: ApprovalId = name, found: list[Approval | None] = found) -> None:
            found.append(await stores[it].answer(name, it))

        await store.ask(approval(name, digest=f"d{number}"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, YES)
            tasks.start_soon(answer, NO)
        assert found[0] == found[1] == await store.get(LOCAL, name)
    thread.close()


async def test_a_principal_reads_nothing_of_another(store: ApprovalStore) -> None:
    await store.ask(approval("a", principal=SOMEBODY))
    assert await store.get(LOCAL, ApprovalId("a")) is None
    assert await store.unanswered(LOCAL) == []
    assert names(await store.unanswered(SOMEBODY)) == ["a"], "the control"
    await store.answer(ApprovalId("a"), replace(YES, scope=AnswerScope.SESSION))
    assert await store.remembered(LOCAL, "s1") == []


async def test_nothing_of_a_question_or_an_answer_is_in_the_file_and_an_answer_can_not_be_moved(tmp_path: Path) -> None:
    thread = DatabaseThread(tmp_path)
    store = ApprovalStore(thread, JournalCipher(tmp_path))
    question = replace(QUESTION, arguments={"owner": "ada lovelace"})  # random bytes hold short texts now and then
    for name, digest in (("a", "digest of a"), ("b", "digest of b")):
        await store.ask(approval(name, digest=digest, question=question))
    await store.answer(ApprovalId("a"), replace(YES, reason="certainly"))
    move = (
        "UPDATE approvals SET answer = (SELECT answer FROM approvals WHERE approval_id = 'a') WHERE approval_id = 'b'"
    )
    await thread.run(lambda connection: connection.exec_driver_sql(move))
    assert await store.get(LOCAL, ApprovalId("b")) is None
    assert (await store.get(LOCAL, ApprovalId("a"))) is not None, "the control"
    thread.close()
    content = (tmp_path / FILE_NAME).read_bytes()
    assert b"approval" in content, "the control"
    for text in (b"certainly", b"create_issue", b"ada lovelace", b"digest of a"):
        assert text not in content
