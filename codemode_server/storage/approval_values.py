"""The JSON form of an approval's question and answer, as they are encrypted."""

from __future__ import annotations

import json
from typing import Any

from codemode_server.domain.approvals import AnswerScope, ApprovalAnswer, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.tools import Effect
from codemode_server.json_bytes import json_bytes


def to_question(key: CallKey, definition: str, question: Question) -> bytes:
    """What is stored of a question."""
    call = [key.server, key.tool, key.arguments_digest, key.occurrence]
    fields = {name: getattr(question, name) for name in Question.__slots__}
    return json_bytes({"call": call, "definition": definition, "question": fields}, "surrogatepass")


def from_question(data: bytes) -> tuple[CallKey, str, Question]:
    """The key of the call, the digest of the tool's definition, and the question."""
    stored = json.loads(data.decode("utf-8", "surrogatepass"))
    fields: dict[str, Any] = stored["question"]
    fields["effect"] = Effect(fields["effect"])
    for name in ("done", "lines", "changes", "sources"):
        fields[name] = tuple(fields.get(name, ()))
    return CallKey(*stored["call"]), stored["definition"], Question(**fields)


def to_answer(answer: ApprovalAnswer) -> bytes:
    """What is stored of an answer."""
    return json_bytes({name: getattr(answer, name) for name in ApprovalAnswer.__slots__}, "surrogatepass")


def from_answer(data: bytes) -> ApprovalAnswer:
    """The answer that was stored."""
    fields: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return ApprovalAnswer(**{**fields, "scope": AnswerScope(fields["scope"])})
