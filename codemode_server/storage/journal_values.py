"""The journal's stored values: rows of executions, decisions, and the cipher of its texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Capture, Decision, Deny, Recorded
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId, JsonValue, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage.database import AnyRow
from codemode_server.support.private_cipher import PrivateCipher

KEY_NAME = "journal.key"


class JournalCipher(PrivateCipher):
    """Encrypts the arguments, results, programs and errors of the journal in one state folder; each value is
    bound to its row and column. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "arguments and results of past calls"
        super().__init__(folder / KEY_NAME, "the journal's key", lost, JournalUnavailable, secret)


def to_record(row: AnyRow, decrypted: Callable[[bytes | None, str], str | None]) -> ExecutionRecord:
    """The record of a row. `decrypted` gives the text of an encrypted column and place."""
    name = ExecutionId(row.execution_id)
    return ExecutionRecord(
        name,
        Principal(PrincipalId(row.principal)),
        Session(row.session_id, row.is_ephemeral),
        IsolationLevel(row.level) if row.level else None,
        ExecutionStatus(row.status),
        row.started_at,
        decrypted(row.code, f"{name}/code"),
        row.ended_at,
        row.error,
        row.calls,
        row.milliseconds,
        row.is_dry_run,
        ExecutionId(row.applies) if row.applies else None,
        decrypted(row.description, f"{name}/description"),
        row.recorded_code,
    )


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
    match name:
        case "allow":
            return Allow(reason)
        case "ask":
            return Ask(reason)
        case "replay" if isinstance(detail, dict):
            return Recorded(CallOutcome(**detail | {"status": CallStatus(detail["status"])}), reason)
        case "simulate" if isinstance(detail, dict):
            return Capture(reason=reason, **detail)
        case _:
            return Deny(reason)
