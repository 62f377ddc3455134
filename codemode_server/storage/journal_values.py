"""The journal's stored values: rows of executions, decisions, and the cipher of its texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from sqlalchemy import Connection, bindparam, select

from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Capture,
    Decision,
    Deny,
    Recorded,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.flows import holder_in
from codemode_server.domain.ids import ExecutionId, JsonValue, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage.database import AnyRow
from codemode_server.storage.tables import calls
from codemode_server.support.json_values import json_bytes
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable

KEY_NAME = "journal.key"
_MAX_NAME_CHARACTERS = 1_000
_OMITTED = b"\x00"
"""Stored in place of a value that would exceed the limit for one execution."""
_REMOVED = "the journal has deleted its arguments and result (state.journal_hours, state.journal_mb)"
_Received = tuple[Literal["json", "blocks"], JsonValue]


class JournalCipher(PrivateCipher):
    """Encrypts the arguments, results, programs and errors of the journal in one state folder; each value is
    bound to its row and column. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "arguments and results of past calls"
        super().__init__(folder / KEY_NAME, "the journal's key", lost, JournalUnavailable, secret)


CALL_COLUMNS = (
    *(calls.c.seq, calls.c.server, calls.c.tool, calls.c.occurrence, calls.c.decision, calls.c.reason, calls.c.status),
    *(calls.c.started_at, calls.c.ended_at, calls.c.milliseconds, calls.c.result_bytes, calls.c.recorded_error),
)
CALL_VALUES = calls.c.arguments, calls.c.detail, calls.c.result, calls.c.error
"""The encrypted columns of a call."""
_VALUES_OF_CALLS = (
    select(calls.c.seq, *CALL_VALUES)
    .where(calls.c.execution_id == bindparam("of_execution"))
    .execution_options(yield_per=20)
)
Values = Literal["all", "small", "none"]
"""What is read of the values of a call; small: arguments and an error if they are, for a list of calls."""


class JournalValues:
    """Makes encrypted columns of values, and records of rows. Works in any thread. Raises as the cipher does."""

    def __init__(self, cipher: JournalCipher) -> None:
        self._cipher = cipher

    def encrypted(self, value: JsonValue, place: str) -> bytes | None:
        return None if value is None else self._cipher.encrypt(json_of(value), place)

    def encrypted_json(self, data: bytes, place: str) -> bytes:
        """As `encrypted`, of a value as JSON; without any, what stands for a value that was too much."""
        return self._cipher.encrypt(data, place) if data else _OMITTED

    def decision(self, decision: Decision, place: str) -> dict[str, Any]:
        """The columns of a decision."""
        detail = self.encrypted(detail_of(decision), f"{place}/detail")
        return {"decision": decision.kind, "reason": short(decision.reason), "detail": detail}

    def decrypted(self, data: bytes | None, place: str) -> Any:
        """Raises `ValueUnreadable`."""
        if data is None:
            return None
        if data == _OMITTED:
            raise ValueUnreadable("it was more than the journal holds of one execution; state.journal_mb is the bound")
        return json.loads(self._cipher.decrypt(data, place))

    def of_execution(self, record: ExecutionRecord, repeat: Repeat | None) -> dict[str, Any]:
        """The columns of an execution that begins."""
        name = record.execution_id
        return {
            "execution_id": name,
            "principal": record.principal.principal_id,
            "session_id": record.session.session_id,
            "is_ephemeral": record.session.is_ephemeral,
            "level": record.level,
            "status": record.status,
            "started_at": record.started_at,
            "is_dry_run": record.is_dry_run,
            "applies": record.applies,
            "holder": holder_in(record.session) if record.level else None,
            "code": self.encrypted(record.code, f"{name}/code"),
            "description": self.encrypted(record.description, f"{name}/description"),
            "seed": self.encrypted(repeat and [repeat.seed.hex()], f"{name}/seed"),
        }

    def answer(self, execution_id: ExecutionId, text: str) -> dict[str, Any]:
        """The parameters of the statement that records what the model got."""
        answer = self.encrypted(text, f"{execution_id}/answer")
        return {"of_execution": execution_id, "answer": answer, "added": len(text)}

    def execution(self, row: AnyRow) -> ExecutionRecord:
        name = ExecutionId(row.execution_id)
        return ExecutionRecord(
            name,
            Principal(PrincipalId(row.principal)),
            Session(row.session_id, row.is_ephemeral),
            IsolationLevel(row.level) if row.level else None,
            ExecutionStatus(row.status),
            row.started_at,
            self._text(row.code, f"{name}/code"),
            row.ended_at,
            row.error,
            row.calls,
            row.milliseconds,
            row.is_dry_run,
            ExecutionId(row.applies) if row.applies else None,
            self.description(row),
            row.recorded_code,
            self._text(row.answer, f"{name}/answer"),
        )

    def calls(self, execution_id: ExecutionId, rows: Sequence[AnyRow]) -> list[CallRecord]:
        return [self._call(execution_id, row) for row in rows]

    def _call(self, execution_id: ExecutionId, row: AnyRow) -> CallRecord:
        place, unreadable = f"{execution_id}/{row.seq}", None
        has_values = len(row) > len(CALL_COLUMNS)
        sealed_arguments, sealed_detail, sealed_result, sealed_error = row[len(CALL_COLUMNS) :] or (None,) * len(
            CALL_VALUES
        )
        arguments: dict[str, Any] = {}
        received: JsonValue = None
        known: JsonValue = None
        try:
            arguments = self.decrypted(sealed_arguments, f"{place}/arguments") or {}
            known = self.decrypted(sealed_detail, f"{place}/detail")
        except ValueUnreadable as problem:
            unreadable = f"arguments and result can't be read: {problem}"
        if has_values and sealed_arguments is None:
            unreadable = _REMOVED
        try:
            received = self.decrypted(sealed_result, f"{place}/result")
        except ValueUnreadable as problem:
            unreadable = unreadable or f"the result can't be read: {problem}"
        outcome = None
        if row.status != CallStatus.STARTED:
            message = self._text(sealed_error, f"{place}/error") if sealed_error else row.recorded_error
            encoding, result = cast("_Received", tuple(received) if received else ("json", None))
            outcome = CallOutcome(
                CallStatus(row.status), row.milliseconds, row.result_bytes or 0, result, message, encoding=encoding
            )
        key = CallKey(row.server, row.tool, arguments_digest(arguments), row.occurrence)
        call = ToolCall(execution_id, row.seq, row.server, row.tool, arguments, key)
        decision = to_decision(row.decision, row.reason, known)
        return CallRecord(call, decision, row.started_at, outcome, unreadable, row.ended_at)

    def description(self, row: AnyRow) -> str | None:
        return self._text(row.description, f"{row.execution_id}/description")

    def contain(self, connection: Connection, row: AnyRow, text: str) -> bool:
        """True if the JSON of a value of an execution, or of one of its calls, has a casefolded text in it."""
        name = row.execution_id
        own = ((row._mapping[it], f"{name}/{it}") for it in ("code", "description", "answer"))
        if any(self._has(data, place, text) for data, place in own):
            return True
        if row.value_bytes is None and row.ended_at is not None:  # the journal has deleted them
            return False
        names = [it.name for it in CALL_VALUES]
        for seq, *sealed in connection.execute(_VALUES_OF_CALLS, {"of_execution": name}):
            its = ((data, f"{name}/{seq}/{it}") for it, data in zip(names, sealed, strict=True))
            if any(self._has(data, place, text) for data, place in its):
                return True
        return False

    def _has(self, data: bytes | None, place: str, text: str) -> bool:
        if data is None or data == _OMITTED:
            return False
        with suppress(ValueUnreadable):
            return text in self._cipher.decrypt(data, place).decode("utf-8", "surrogatepass").casefold()
        return False

    def _text(self, data: bytes | None, place: str) -> str | None:
        try:
            text: str | None = self.decrypted(data, place)
        except ValueUnreadable as problem:
            return f"({problem})"
        return text


def json_of(value: JsonValue) -> bytes:
    return json_bytes(value, "surrogatepass")


def short(text: str) -> str:
    return text if len(text) <= _MAX_NAME_CHARACTERS else f"{text[: _MAX_NAME_CHARACTERS - 1]}…"


def detail_of(decision: Decision) -> JsonValue:
    """Fields of a decision beside its reason."""
    match decision:
        case Recorded(outcome=it):
            return {name: getattr(it, name) for name in CallOutcome.__slots__}
        case Capture(result_type=result_type, asks=asks, is_reading=is_reading):
            return {"result_type": result_type, "asks": asks, "is_reading": is_reading}
        case _:
            return None


def to_decision(name: str, reason: str, detail: JsonValue) -> Decision:
    """`detail`: None if it is not read, or the journal has removed it."""
    fields: dict[str, Any] = detail if isinstance(detail, dict) else {}
    match name:
        case "allow":
            return Allow(reason)
        case "ask":
            return Ask(reason)
        case "replay":
            status = CallStatus(fields.get("status", CallStatus.UNKNOWN))
            return Recorded(CallOutcome(**{"milliseconds": 0.0} | fields | {"status": status}), reason)
        case "simulate":
            return Capture(**{"result_type": ""} | fields, reason=reason)
        case _:
            return Deny(reason)
