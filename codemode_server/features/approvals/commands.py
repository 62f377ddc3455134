"""The `approvals` command: shows the calls that wait for a person, and takes the answers. `approve` insists on a person
at a terminal; what privacy tokens stand for is printed to a terminal only."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.cli.terminal import configuration, local_time, person_confirms, show
from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId, result_of
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.approvals.message import commands_of, one_line, pattern_text, short_text, whole_text
from codemode_server.records.executions import Records, stored_records
from codemode_server.support.text import counted

if TYPE_CHECKING:
    from codemode_server.app import App

NAME = "command"
_SCOPES = {
    "call": AnswerScope.CALL,
    "program": AnswerScope.EXECUTION,
    "session": AnswerScope.SESSION,
    "tool": AnswerScope.TOOL,
    "reads": AnswerScope.READS,
    "always": AnswerScope.ALWAYS,
    "arrived": AnswerScope.ARRIVED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the open questions; the default")
    one = actions.add_parser("show", help="print one whole question")
    approving = actions.add_parser("approve", help="approve a call; asks you at the terminal")
    arrived = actions.add_parser("arrived", help="say that a call without an answer arrived; asks you at the terminal")
    denying = actions.add_parser("deny", help="refuse a call")
    for action in (one, approving, arrived, denying):
        action.add_argument("id", metavar="ID", help="as `approvals list` prints it")
    for action in (listing, one):
        action.add_argument("--json", action="store_true", help="print JSON")
    approving.add_argument(
        "--for",
        dest="scope",
        choices=tuple(_SCOPES)[:-1],
        default="call",
        help="what the approval holds for: this call (default), this tool in the rest of the program, calls like it in "
        "this session, this tool in this session, always all that only reads on this server, or always this tool",
    )
    arrived.set_defaults(scope="arrived")
    arrived.add_argument("--result", default="", metavar="JSON", help="what the tool answered; default: None")
    denying.add_argument("--reason", default="", metavar="TEXT", help="what the program is told")


def run(parsed: argparse.Namespace) -> int:
    with stored_records(configuration(parsed)) as records:
        if parsed.action in ("approve", "arrived"):
            return _approve(records, parsed.id, _SCOPES[parsed.scope], getattr(parsed, "result", ""))
        return anyio.run(_run, records, parsed)


async def _run(records: Records, parsed: argparse.Namespace) -> int:
    match parsed.action:
        case "show":
            show(_whole(await _approval(records, parsed.id), as_json=parsed.json))
        case "deny":
            approval = await _answerable_question(records, parsed.id, is_approval=False)
            answer = ApprovalAnswer(False, reason=parsed.reason, channel=NAME, answered_at=time.time())
            await records.answer(approval.approval_id, answer)
            show(f"refused: {approval.question.title}; the program is told when it goes on")
        case _:
            show(_list(await records.approvals(), await records.refusals(), as_json=parsed.json))
    return 0


def _list(approvals: Sequence[Approval], refused: Sequence[Approval], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([_as_json(it) for it in approvals], indent=2)
    past = [f"{it.approval_id}  program {it.execution_id}  {one_line(it.question.title, 200)}" for it in refused]
    if past:
        past = ["\n".join(["refused; `codemode-server approvals approve ID` allows one after all:", *past])]
    if not approvals:
        return "\n\n".join(["no call waits for your approval", *past])
    blocks = [
        f"{it.approval_id}  {local_time(it.asked_at)}  program {it.execution_id}\n{_indented(it)}" for it in approvals
    ]
    how = "codemode-server approvals approve ID [--for program|session|tool|reads|always] | deny ID"
    how += " | arrived ID [--result JSON]" if any(it.question.is_unanswered for it in approvals) else ""
    return "\n\n".join([*blocks, how, *past])


def _whole(approval: Approval, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(_as_json(approval), indent=2)
    head = f"question {approval.approval_id} of program {approval.execution_id}"
    return "\n".join([head, whole_text(_printable(approval)), _state(approval)])


def _approve(records: Records, approval_id: str, scope: AnswerScope, result: str) -> int:
    # Not in an event loop, where Ctrl+C would not end the question to the person.
    approval = anyio.run(partial(_answerable_question, records, approval_id, is_approval=True))
    asked = approval.question
    scopes = "|".join(name for name, it in _SCOPES.items() if it in asked.scopes)
    how = commands_of(approval) + ("" if asked.is_unanswered else f" [--for {scopes}]")
    if scope not in asked.scopes:
        raise CodemodeError(f"this question is answered otherwise: {how}")
    if scope is AnswerScope.ARRIVED and asked.result and result_of(result) is None:
        raise CodemodeError(f"the program needs its result, by --result JSON: {one_line(asked.result, 200)}")
    meaning = {
        AnswerScope.CALL: "Send it again?" if asked.is_unanswered else "Approve this call?",
        AnswerScope.ARRIVED: f"Go on as if it had arrived, with the result {one_line(result or 'None', 200)}?",
        AnswerScope.EXECUTION: f"Approve {one_line(asked.title, 200)} for the rest of this program?",
        AnswerScope.SESSION: f"Approve it in this session with {pattern_text(asked, 500)}?",
        AnswerScope.TOOL: "Approve this tool in this session, whatever it sends?",
        AnswerScope.READS: f"Always approve {counted(len(asked.readers), 'tool')} of {one_line(asked.server, 200)} as "
        f"tools that only read, in {records.loaded.path}?",
        AnswerScope.ALWAYS: f"Always approve it, by `{asked.rule}` in {records.loaded.path}?",
    }[scope]
    if not person_confirms(whole_text(approval), meaning):
        state = "the call still waits" if approval.answer is None else "it stays refused"
        show(f"nothing was answered; {state}. To answer: {how}")
        return 1
    answer = ApprovalAnswer(True, scope, channel=NAME, answered_at=time.time(), result=result_of(result))
    anyio.run(records.answer, approval.approval_id, answer)
    again = "" if approval.answer is None else "; it holds when the program makes the call again, or is resumed"
    show(f"{'arrived' if scope is AnswerScope.ARRIVED else 'approved'}: {one_line(asked.title, 200)}{again}")
    return 0


async def _answerable_question(records: Records, approval_id: str, *, is_approval: bool) -> Approval:
    approval = await _approval(records, approval_id)
    if not (approval.may_be_approved if is_approval else approval.is_open)(time.time()):
        raise CodemodeError(f"the question {approval_id} can't be answered any more: {_state(approval)}")
    return approval


async def _approval(records: Records, approval_id: str) -> Approval:
    if (approval := await records.approval(ApprovalId(approval_id))) is None:
        raise CodemodeError(
            f"there is no question {approval_id!r} (any more); `codemode-server approvals list` shows the open ones"
        )
    return approval


def _as_json(it: Approval) -> dict[str, Any]:
    question = {**asdict(it.question), "effect": it.question.effect.value}
    del question["changes"]  # may have what privacy tokens stand for
    times = {"asked_at": local_time(it.asked_at), "expires_at": local_time(it.expires_at)}
    about = {"id": it.approval_id, "execution_id": it.execution_id, "session": it.session_id, **question, **times}
    if (answer := it.answer) is None:
        return {**about, "answer": None}
    answered = {
        "approved": answer.is_approved,
        "for": answer.scope.value,
        "reason": answer.reason,
        "channel": answer.channel,
        "answered_at": local_time(answer.answered_at),
    }
    return {**about, "answer": answered}


def _indented(it: Approval) -> str:
    return "\n".join(f"  {line}" for line in short_text(_printable(it)).splitlines()[:-1])


def _printable(it: Approval) -> Approval:
    """The approval; without what privacy tokens stand for if no terminal shows it."""
    return it if sys.stdout.isatty() else replace(it, question=it.question.without_values())


def _state(it: Approval) -> str:
    if it.answer is None:
        return f"open until {local_time(it.expires_at)}" if it.is_open(time.time()) else "nobody answered in time"
    decided = "approved" if it.answer.is_approved else "refused"
    why = f": {it.answer.reason}" if it.answer.reason else ""
    return f"{decided} ({it.answer.channel}, {local_time(it.answer.answered_at)}){why}"


async def status_lines(app: App) -> list[str]:
    """How many calls wait for the person; nothing if none does."""
    found = [it for it in await app.stores.approvals.unanswered(app.principal) if it.is_open(time.time())]
    if not found:
        return []
    waits = "1 call waits" if len(found) == 1 else f"{len(found)} calls wait"
    answers = "`codemode-server approvals approve ID` or `deny ID` answers"
    return [f"approvals: {waits} for you; `codemode-server approvals` shows them, {answers}"]
