"""The store of approvals on SQLite, in the journal's database and with its key.

Questions and answers are encrypted, and an answer is bound to its question, so that nobody can move it to another one.
The key of the call is part of the question; a few bits of its digest find the row. What privacy tokens stand for is in
a question until it is answered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import Effect
from codemode_server.storage.database import placeholders
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.support.json_values import json_bytes
from codemode_server.support.private_cipher import ValueUnreadable

_COLUMNS = "approval_id, execution_id, principal, session_id, asked_at, expires_at, question, answer"
_HINT_BYTES = 2
"""More of the digest would tell whoever has the file, and not the key, which arguments it was made of."""
_MAX_REMEMBERED = 100
_Row = tuple[Any, ...]


class SqliteApprovals:
    """Holds questions and answers as long as the journal holds their executions: they survive a restart, and other
    processes may answer. Every method raises `JournalUnavailable` if the store can't be used."""

    def __init__(self, thread: DatabaseThread, cipher: JournalCipher) -> None:
        self._thread = thread
        self._cipher = cipher

    async def ask(self, approval: Approval) -> Approval:
        """Store a question without an answer; returns it, or the one that it repeats (`Approval.repeats`), which may
        have an answer. One of the same call that it does not repeat is deleted."""

        def ask(connection: Connection) -> Approval:
            rows = connection.exec_driver_sql(
                f"SELECT {_COLUMNS} FROM approvals WHERE execution_id = ? AND key_hint = ?",  # noqa: S608
                (approval.execution_id, _hint(approval.key)),
            ).fetchall()
            for earlier in self._approvals(rows):
                if approval.repeats(earlier):
                    return earlier
                if earlier.key == approval.key:
                    connection.exec_driver_sql("DELETE FROM approvals WHERE approval_id = ?", (earlier.approval_id,))
            self._insert(connection, approval)
            return approval

        return await self._thread.run(ask)

    def _insert(self, connection: Connection, approval: Approval) -> None:
        question = _to_question(approval.key, approval.definition, approval.question)
        connection.exec_driver_sql(
            f"INSERT INTO approvals ({_COLUMNS}, key_hint) VALUES ({placeholders(9)})",  # noqa: S608
            (
                approval.approval_id,
                approval.execution_id,
                approval.principal.principal_id,
                approval.session_id,
                approval.asked_at,
                approval.expires_at,
                self._cipher.encrypt(question, f"approval/{approval.approval_id}/question"),
                None,
                _hint(approval.key),
            ),
        )

    async def answer(
        self, approval_id: ApprovalId, answer: ApprovalAnswer, *, replaces_refusal: bool = False
    ) -> Approval | None:
        """Store an answer, unless there is one: the first one stays, except for a refusal that this one replaces.
        Returns the approval with the answer that holds, once that survives the death of the process; None if the
        question was withdrawn. What privacy tokens stand for is stored until then."""

        def store(connection: Connection) -> Approval | None:
            found = self._one(connection, "approval_id = ?", (approval_id,))
            is_replaced = replaces_refusal and found is not None and found.may_be_approved(answer.answered_at)
            if found is None or (found.answer is not None and not is_replaced):
                return found
            scope = answer.scope if answer.is_approved and answer.scope is not AnswerScope.CALL else None
            connection.exec_driver_sql(
                "UPDATE approvals SET scope = ?, answer = ? WHERE approval_id = ?",
                (scope, self._cipher.encrypt(_to_answer(answer), f"approval/{approval_id}/answer"), approval_id),
            )
            self._replace_question(connection, found, found.question.without_values())
            return replace(found, answer=answer)

        return await self._thread.run(store)

    async def drop_values(self, principal: Principal, tokens: Collection[str]) -> None:
        def drop(connection: Connection) -> None:
            statement = f"SELECT {_COLUMNS} FROM approvals WHERE principal = ? AND answer IS NULL"  # noqa: S608
            rows = connection.exec_driver_sql(statement, (principal.principal_id,)).fetchall()
            for it in self._approvals(rows):
                self._replace_question(connection, it, it.question.without_values(tokens))

        await self._thread.run(drop, is_durable=True)

    def _replace_question(self, connection: Connection, approval: Approval, shown: Question) -> None:
        if shown == approval.question:
            return
        question = _to_question(approval.key, approval.definition, shown)
        sealed = self._cipher.encrypt(question, f"approval/{approval.approval_id}/question")
        connection.exec_driver_sql(
            "UPDATE approvals SET question = ? WHERE approval_id = ?", (sealed, approval.approval_id)
        )

    async def withdraw(self, approval_id: ApprovalId, *, is_answered: bool = False) -> None:
        """Delete a question that has no answer, or that has one."""
        statement = f"DELETE FROM approvals WHERE approval_id = ? AND answer IS {'NOT ' if is_answered else ''}NULL"  # noqa: S608
        await self._thread.run(lambda connection: connection.exec_driver_sql(statement, (approval_id,)))

    async def get(self, principal: Principal, approval_id: ApprovalId) -> Approval | None:
        """One of this principal; None if there is none (any more)."""
        values = (approval_id, principal.principal_id)
        return await self._thread.run(lambda it: self._one(it, "approval_id = ? AND principal = ?", values))

    async def unanswered(self, principal: Principal) -> Sequence[Approval]:
        """The principal's questions without an answer, oldest first, also those whose time has passed."""
        return await self._select("principal = ? AND answer IS NULL ORDER BY asked_at", (principal.principal_id,))

    async def refused(self, principal: Principal, *, since: float) -> Sequence[Approval]:
        """The principal's newest questions since then that a person has refused."""
        which = "principal = ? AND asked_at > ? AND answer IS NOT NULL AND scope IS NULL ORDER BY asked_at DESC LIMIT ?"
        found = await self._select(which, (principal.principal_id, since, _MAX_REMEMBERED))
        return [it for it in found if it.answer is not None and it.answer.is_refusal]

    async def of_execution(self, principal: Principal, execution_id: ExecutionId) -> Sequence[Approval]:
        return await self._select("principal = ? AND execution_id = ?", (principal.principal_id, execution_id))

    async def answered(self, approval_ids: Collection[ApprovalId]) -> Sequence[Approval]:
        which = f"answer IS NOT NULL AND approval_id IN ({placeholders(len(approval_ids))})"
        return await self._select(which, tuple(approval_ids))

    async def remembered(self, principal: Principal, session_id: str) -> Sequence[Approval]:
        """The newest approvals of a session whose answer holds for more than its call."""
        which = "principal = ? AND session_id = ? AND scope IS NOT NULL ORDER BY asked_at DESC LIMIT ?"
        return await self._select(which, (principal.principal_id, session_id, _MAX_REMEMBERED))

    async def _select(self, which: str, values: tuple[object, ...]) -> list[Approval]:
        statement = f"SELECT {_COLUMNS} FROM approvals WHERE {which}"  # noqa: S608
        return list(self._approvals(await self._thread.rows(statement, values)))

    def _one(self, connection: Connection, which: str, values: tuple[object, ...]) -> Approval | None:
        statement = f"SELECT {_COLUMNS} FROM approvals WHERE {which}"  # noqa: S608
        return next(self._approvals(connection.exec_driver_sql(statement, values).fetchall()), None)

    def _approvals(self, rows: Iterable[_Row]) -> Iterator[Approval]:
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
    for name in ("done", "lines", "changes", "sources", "reads"):
        fields[name] = tuple(fields[name])
    return CallKey(*stored["call"]), stored["definition"], Question(**fields)


def _to_answer(answer: ApprovalAnswer) -> bytes:
    return json_bytes({name: getattr(answer, name) for name in ApprovalAnswer.__slots__}, "surrogatepass")


def _from_answer(data: bytes) -> ApprovalAnswer:
    fields: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return ApprovalAnswer(**{**fields, "scope": AnswerScope(fields["scope"])})
