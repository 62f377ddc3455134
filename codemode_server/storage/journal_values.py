"""The journal's stored values: rows of executions, decisions, and the cipher of its texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codemode_server.domain.calls import Allow, Ask, CallOutcome, CallStatus, Capture, Decision, Deny, Recorded
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId, JsonValue, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.support.private_cipher import PrivateCipher

KEY_NAME = "journal.key"
EXECUTION_COLUMNS = (
    "execution_id, principal, session_id, is_ephemeral, level, status, started_at, code, ended_at, error, calls,"
    " milliseconds, is_dry_run, applies, description"
)


class JournalCipher(PrivateCipher):
    """Encrypts the arguments, results, programs and errors of the journal in one state folder; each value is
    bound to its row and column. Raises `JournalUnavailable` if its key can't be used."""

    def __init__(self, folder: Path, secret: str | None = None) -> None:
        """`secret`: `state.key`."""
        lost = "arguments and results of past calls"
        super().__init__(folder / KEY_NAME, "the journal's key", lost, JournalUnavailable, secret)


def to_record(row: Sequence[Any], decrypted: Callable[[bytes | str | None, str], str | None]) -> ExecutionRecord:
    """The record of a row. `decrypted` gives the text of an encrypted column and place."""
    name, principal, session_id, is_ephemeral, level, status, started_at, code, ended_at, error, *ending = row
    calls, milliseconds, is_dry_run, applies, description = ending
    return ExecutionRecord(
        ExecutionId(name),
        Principal(PrincipalId(principal)),
        Session(session_id, bool(is_ephemeral)),
        IsolationLevel(level) if level else None,
        ExecutionStatus(status),
        started_at,
        decrypted(code, f"{name}/code"),
        ended_at,
        decrypted(error, f"{name}/error"),
        calls,
        milliseconds,
        bool(is_dry_run),
        ExecutionId(applies) if applies else None,
        decrypted(description, f"{name}/description"),
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
