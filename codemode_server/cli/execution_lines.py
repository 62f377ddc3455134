"""Recorded executions as commands print them: rows and lines for a person, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any

from codemode_server.domain.executions import CallRecord, ExecutionRecord
from codemode_server.domain.history import CallRetry
from codemode_server.records.executions import Records
from codemode_server.redaction import payload
from codemode_server.text import clean_line

_MAX_ERROR_CHARACTERS = 300


def execution_json(records: Records, it: ExecutionRecord) -> dict[str, Any]:
    return {
        "execution_id": it.execution_id,
        "kind": "dry run" if it.is_dry_run else it.kind.value,
        "applies": it.applies,
        "description": records.masked(it.description, _MAX_ERROR_CHARACTERS),
        "status": it.status.value,
        "sandbox": it.level.value if it.level else None,
        "session": it.session.session_id,
        "started_at": local_time(it.started_at),
        "ended_at": local_time(it.ended_at) if it.ended_at else None,
        "milliseconds": None if it.milliseconds is None else round(it.milliseconds),
        "error": records.masked(it.error, _MAX_ERROR_CHARACTERS),
        "code": it.code,
    }


def execution_row(records: Records, it: ExecutionRecord) -> tuple[str, ...]:
    """Its line in a list."""
    level = it.level.value if it.level else f"none ({it.kind.value})"
    status = f"{it.status.value} (dry run)" if it.is_dry_run else it.status.value
    started = f"{datetime.fromtimestamp(it.started_at, UTC).astimezone():%Y-%m-%d %H:%M %Z}"
    numbers = ("-" if number is None else f"{number:,.0f}" for number in (it.calls, it.milliseconds))
    description = clean_line(records.masked(it.description) or "", 60)
    return it.execution_id, started, status, level, *numbers, description


def call_fields(records: Records, it: CallRecord, *, is_waiting: bool = False) -> dict[str, Any]:
    """The call as one row of a table; `is_waiting`: `Records.waiting` has its number."""
    outcome, status = it.outcome, it.outcome.status.value if it.outcome else "unknown"
    error = outcome.error if outcome and not is_waiting and records.config.payloads == "all" else None
    return {
        "call": it.call.seq,
        "tool": clean_line(f"{it.call.server}.{it.call.tool}", 100),
        "started_at": local_time(it.started_at),
        "decision": it.decision.kind,
        "reason": clean_line(it.decision.reason, 100),
        "status": "waiting" if is_waiting else status,
        "milliseconds": round(outcome.milliseconds) if outcome else None,
        "error": records.masked(error, _MAX_ERROR_CHARACTERS),
    }


def call_json(
    records: Records, it: CallRecord, retries: Sequence[CallRetry], *, is_waiting: bool = False
) -> dict[str, Any]:
    return call_fields(records, it, is_waiting=is_waiting) | {
        "retries": [{"reason": one.reason.value, "after_ms": round(one.after_ms(it.started_at))} for one in retries]
    }


async def exported(records: Records, since: float) -> AsyncGenerator[str]:
    """All executions that started since then with their calls, oldest first, each as a line of JSON."""
    for name in [it.execution_id for it in reversed(await records.executions(None, since=since))]:
        if (recorded := await records.find(name)) is None:  # it was deleted meanwhile
            continue
        execution, calls, _ = recorded
        retries = await records.retries(name)
        shown = [_call_with_values(records, it, retries.get(it.call.seq, ())) for it in calls]
        yield json.dumps(execution_json(records, execution) | {"calls": shown})


def _call_with_values(records: Records, it: CallRecord, retries: Sequence[CallRetry]) -> dict[str, Any]:
    """As `call_json`, with what the configuration lets be shown of arguments and result."""
    outcome, keep, redactor = it.outcome, records.config.payloads, records.config.redactor
    has_result = outcome is not None and outcome.error is None and not it.unreadable
    arguments = None if it.unreadable else payload(it.call.arguments, keep, redactor)
    result = payload(outcome.result, keep, redactor) if outcome and has_result else None
    return call_json(records, it, retries) | {
        "arguments": None if arguments is None else json.loads(arguments),
        "result": None if result is None else json.loads(result),
    }


def local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
