"""Asks over the host of the program: a form with one choice, in either protocol.

A host declares that it shows forms to its user. One that answers them by itself, or lets its model do so, decides in
the person's place; the guide on security says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import LiveConfig
from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, Question, result_of
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.features.approvals.message import short_text
from codemode_server.support.text import clean_line

logger = logging.getLogger(__name__)

NAME = "elicitation"
MAX_REASON_CHARACTERS = 300
CHOICES = {
    "Allow this call": AnswerScope.CALL,
    "Allow this tool for the rest of this program": AnswerScope.EXECUTION,
    "Allow it in this session, as shown": AnswerScope.SESSION,
    "Allow this tool in this session, whatever it sends": AnswerScope.TOOL,
    "Always allow what only reads on this server": AnswerScope.READS,
    "Always allow this tool": AnswerScope.ALWAYS,
}
NO = "No"
UNANSWERED_CHOICES = {"It arrived": AnswerScope.ARRIVED, "Send it again": AnswerScope.CALL}
GIVE_UP = "Give up"


@dataclass(slots=True)
class ElicitationChannel:
    config: LiveConfig

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        if Feature.ELICITATION not in calls.host.features:
            return None
        try:
            answer = await calls.host.ask(_request(approval))
        except InputRefused as refusal:
            logger.info("the host did not show the question %s: %s", approval.approval_id, refusal)
            return None
        return self._answer(answer, approval.question)

    def _answer(self, answer: dict[str, Any], asked: Question) -> ApprovalAnswer | None:
        """Only a choice that was offered approves: a host that accepts without one has not shown the form."""
        content = answer.get("content")
        given = content if isinstance(content, dict) else {}
        chosen, reason, result = (given.get(name) for name in ("answer", "reason", "result"))
        why = ""
        if isinstance(reason, str):
            why = clean_line(self.config.redactor.visible(reason), MAX_REASON_CHARACTERS)
        match answer.get("action"):
            case "decline":
                return ApprovalAnswer(False, channel=NAME, reason=why)
            case "accept" if chosen in (NO, GIVE_UP):
                return ApprovalAnswer(False, channel=NAME, reason=why)
            case "accept" if isinstance(chosen, str) and chosen in choices(asked):
                known = result_of(result) if isinstance(result, str) else None
                return ApprovalAnswer(True, choices(asked)[chosen], channel=NAME, reason=why, result=known)
        return None


def choices(asked: Question) -> dict[str, AnswerScope]:
    """The ways to approve, by their words, in the order in which they are shown."""
    offered = UNANSWERED_CHOICES if asked.is_unanswered else CHOICES
    return {words: scope for words, scope in offered.items() if scope in asked.scopes}


def _request(approval: Approval) -> InputRequest:
    asked = approval.question
    result = {"type": "string", "title": "Result", "description": "If it arrived: what the tool answered, if you know"}
    form = {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "title": "Answer",
                "enum": [*choices(asked), GIVE_UP if asked.is_unanswered else NO],
            },
            **({"result": result} if asked.is_unanswered else {}),
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "For a no: what the program is told",
                "maxLength": MAX_REASON_CHARACTERS,
            },
        },
        "required": ["answer"],
    }
    params = {"mode": "form", "message": short_text(approval), "requestedSchema": form}
    return InputRequest("elicitation/create", params)
