"""The store of approvals, in the journal's database and with its key.

Questions and answers are encrypted. An answer is bound to its question, so that nobody can move it to another one. The
key of the call is part of the encrypted question; a few bits of its digest are stored beside it, to find the row. The
values of privacy tokens are part of a question until it is answered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Executable, bindparam, delete, insert, select, update

from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import Effect
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.tables import approvals
from codemode_server.support.json_values import json_bytes
from codemode_server.support.private_cipher import ValueUnreadable

_HINT_BYTES = 2
"""With more of the digest, somebody who has the database but not the key could confirm guessed arguments."""
_MAX_REMEMBERED = 100

_IT = approvals.c
_SELECT = select(
    *(_IT.approval_id, _IT.execution_id, _IT.principal, _IT.session_id),
    *(_IT.asked_at, _IT.expires_at, _IT.question, _IT.answer),
)
_IS_ONE = _IT.approval_id == bindparam("approval")
_OPEN, _ANSWERED = _IT.answer.is_(None), _IT.answer.is_not(None)
_ONE = _SELECT.where(_IS_ONE)
_OWN = _SELECT.where(_IT.principal == bindparam("principal"))
_OWN_ONE = _OWN.where(_IS_ONE)
_OF_EXECUTION = _OWN.where(_IT.execution_id == bindparam("execution"))
_OF_CALL = _SELECT.where(_IT.execution_id == bindparam("execution_id"), _IT.key_hint == bindparam("key_hint"))
_UNANSWERED = _OWN.where(_OPEN).order_by(_IT.asked_at)
_NEWEST = _OWN.order_by(_IT.asked_at.desc()).limit(_MAX_REMEMBERED)
_REFUSED = _NEWEST.where(_ANSWERED, _IT.scope.is_(None), _IT.asked_at > bindparam("since"))
_REMEMBERED = _NEWEST.where(_IT.scope.is_not(None), _IT.session_id == bindparam("session"))
_THOSE_ANSWERED = _SELECT.where(_ANSWERED, _IT.approval_id.in_(bindparam("approvals", expanding=True)))
_INSERT = insert(approvals)
_ANSWER = update(approvals).where(_IS_ONE).values(scope=bindparam("of_scope"), answer=bindparam("of_answer"))
_REPLACE_QUESTION = update(approvals).where(_IS_ONE).values(question=bindparam("of_question"))
_DELETE = delete(approvals).where(_IS_ONE)
_WITHDRAW = {False: _DELETE.where(_OPEN), True: _DELETE.where(_ANSWERED)}


class ApprovalStore:
    """Holds questions and answers as long as the journal holds their executions: they survive a restart, and other
    processes may answer. Every method raises `JournalUnavailable` if the store can't be used."""

    def __init__(self, thread: DatabaseThread, cipher: JournalCipher) -> None:
        self._thread = thread
        self._cipher = cipher

    async def ask(self, approval: Approval) -> Approval:
        """Store a question without an answer, and return it. If it repeats a stored one (`Approval.repeats`), return
        that instead, which may have an answer. Another question of the same call is deleted."""

        def ask(connection: Connection) -> Approval:
            of_call = {"execution_id": approval.execution_id, "key_hint": _hint(approval.key)}
            for earlier in self._approvals(connection.execute(_OF_CALL, of_call).all()):
                if approval.repeats(earlier):
                    return earlier
                if earlier.key == approval.key:
                    connection.execute(_DELETE, {"approval": earlier.approval_id})
            row = {it: getattr(approval, it) for it in ("approval_id", "session_id", "asked_at", "expires_at")}
            question = self._sealed_question(approval, approval.question)
            own = {"principal": approval.principal.principal_id, "question": question}
            connection.execute(_INSERT, of_call | row | own)
            return approval

        return await self._thread.run(ask)

    async def answer(
        self, approval_id: ApprovalId, answer: ApprovalAnswer, *, replaces_refusal: bool = False
    ) -> Approval | None:
        """Store an answer and remove the values of privacy tokens from the question. If there is an answer already, it
        stays, unless it is a refusal and this one `replaces_refusal`. Returns the approval with the answer that is
        stored then; None if the question was withdrawn."""

        def store(connection: Connection) -> Approval | None:
            rows = connection.execute(_ONE, {"approval": approval_id}).all()
            found = next(self._approvals(rows), None)
            is_replaced = replaces_refusal and found is not None and found.may_be_approved(answer.answered_at)
            if found is None or (found.answer is not None and not is_replaced):
                return found
            scope = answer.scope.value if answer.is_approved and answer.scope is not AnswerScope.CALL else None
            sealed = self._cipher.encrypt(_to_answer(answer), f"approval/{approval_id}/answer")
            connection.execute(_ANSWER, {"approval": approval_id, "of_scope": scope, "of_answer": sealed})
            self._replace_question(connection, found, found.question.without_values())
            return replace(found, answer=answer)

        return await self._thread.run(store)

    async def drop_values(self, principal: Principal, tokens: Collection[str]) -> None:
        def drop(connection: Connection) -> None:
            rows = connection.execute(_UNANSWERED, {"principal": principal.principal_id}).all()
            for it in self._approvals(rows):
                self._replace_question(connection, it, it.question.without_values(tokens))

        await self._thread.run(drop, is_durable=True)

    def _replace_question(self, connection: Connection, approval: Approval, shown: Question) -> None:
        if shown != approval.question:
            sealed = self._sealed_question(approval, shown)
            connection.execute(_REPLACE_QUESTION, {"approval": approval.approval_id, "of_question": sealed})

    def _sealed_question(self, approval: Approval, shown: Question) -> bytes:
        question = _to_question(approval.key, approval.definition, shown)
        return self._cipher.encrypt(question, f"approval/{approval.approval_id}/question")

    async def withdraw(self, approval_id: ApprovalId, *, is_answered: bool = False) -> None:
        """Delete a question that has no answer, or that has one."""
        statement, values = _WITHDRAW[is_answered], {"approval": approval_id}
        await self._thread.run(lambda connection: connection.execute(statement, values))

    async def get(self, principal: Principal, approval_id: ApprovalId) -> Approval | None:
        """One of this principal; None if there is none (any more)."""
        values = {"principal": principal.principal_id, "approval": approval_id}
        return next(iter(await self._select(_OWN_ONE, values)), None)

    async def unanswered(self, principal: Principal) -> Sequence[Approval]:
        """The principal's questions without an answer, oldest first, also those whose time has passed."""
        return await self._select(_UNANSWERED, {"principal": principal.principal_id})

    async def refused(self, principal: Principal, *, since: float) -> Sequence[Approval]:
        """The principal's newest questions since then that a person has refused."""
        found = await self._select(_REFUSED, {"principal": principal.principal_id, "since": since})
        return [it for it in found if it.answer is not None and it.answer.is_refusal]

    async def of_execution(self, principal: Principal, execution_id: ExecutionId) -> Sequence[Approval]:
        return await self._select(_OF_EXECUTION, {"principal": principal.principal_id, "execution": execution_id})

    async def answered(self, approval_ids: Collection[ApprovalId]) -> Sequence[Approval]:
        return await self._select(_THOSE_ANSWERED, {"approvals": [*approval_ids]})

    async def remembered(self, principal: Principal, session_id: str) -> Sequence[Approval]:
        """The newest approvals of a session whose answer holds for more than its call."""
        return await self._select(_REMEMBERED, {"principal": principal.principal_id, "session": session_id})

    async def _select(self, statement: Executable, values: Mapping[str, object]) -> list[Approval]:
        return [*self._approvals(await self._thread.rows(statement, values))]

    def _approvals(self, rows: Iterable[Any]) -> Iterator[Approval]:
        """Without those that can't be read, for instance since the key is another one: they count as not asked."""
        for name, execution_id, principal, session_id, asked_at, expires_at, sealed, sealed_answer in rows:
            place, answer = f"approval/{name}", None
            try:
                key, definition, question = _from_question(self._cipher.decrypt(sealed, f"{place}/question"))
                if sealed_answer is not None:
                    answer = _from_answer(self._cipher.decrypt(sealed_answer, f"{place}/answer"))
            except ValueUnreadable:
                continue
            yield Approval(
                ApprovalId(name),
                ExecutionId(execution_id),
                Principal(PrincipalId(principal)),
                session_id,
                key,
                question,
                asked_at,
                expires_at,
                definition,
                answer,
            )


def _hint(key: CallKey) -> int:
    text = "\0".join((key.server, key.tool, key.arguments_digest, str(key.occurrence)))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_HINT_BYTES])


def _to_question(key: CallKey, definition: str, question: Question) -> bytes:
    call = [key.server, key.tool, key.arguments_digest, key.occurrence]
    fields = {name: getattr(question, name) for name in Question.__slots__}
    return json_bytes({"call": call, "definition": definition, "question": fields}, "surrogatepass")


def _from_question(data: bytes) -> tuple[CallKey, str, Question]:
    stored = json.loads(data.decode("utf-8", "surrogatepass"))
    fields: dict[str, Any] = stored["question"]
    fields["effect"] = Effect(fields["effect"])
    for name in ("done", "lines", "changes", "sources", "reads", "readers"):
        fields[name] = tuple(fields.get(name, ()))
    return CallKey(*stored["call"]), stored["definition"], Question(**fields)


def _to_answer(answer: ApprovalAnswer) -> bytes:
    return json_bytes({name: getattr(answer, name) for name in ApprovalAnswer.__slots__}, "surrogatepass")


def _from_answer(data: bytes) -> ApprovalAnswer:
    fields: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return ApprovalAnswer(**{**fields, "scope": AnswerScope(fields["scope"])})
