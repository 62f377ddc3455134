"""Recorded executions as commands print them: rows and lines for a person, JSON for scripts, and exports.

An export is `json`, a list, `jsonl`, an execution a line, or `session`, the form of the logs in /workspace/sessions
but from the journal, which no program can change; values and output of programs are not in it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from codemode_server.domain.executions import CallRecord, ExecutionRecord
from codemode_server.domain.history import CallRetry
from codemode_server.executions.session_log import Task
from codemode_server.records.executions import Records
from codemode_server.redaction import payload
from codemode_server.text import clean_line

Format = Literal["json", "jsonl", "session"]
FORMATS: tuple[Format, ...] = ("json", "jsonl", "session")
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


async def exported(records: Records, form: Format, since: float) -> AsyncGenerator[str]:
    """All executions that started since then, oldest first, in pieces that end at the end of a line."""
    if form == "session":
        yield await _sessions(records, since)
        return
    separator = ""
    if form == "json":
        yield "["
    for name in [it.execution_id for it in reversed(await records.executions(None, since=since))]:
        if (recorded := await records.find(name)) is None:  # it was deleted meanwhile
            continue
        execution, calls, _ = recorded
        retries = await records.retries(name)
        content = execution_json(records, execution) | {
            "calls": [_call_with_values(records, it, retries.get(it.call.seq, ())) for it in calls]
        }
        yield f"{separator}{json.dumps(content)}"
        separator = "," if form == "json" else ""
    if form == "json":
        yield "]"


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


async def _sessions(records: Records, since: float) -> str:
    sessions: dict[str, list[ExecutionRecord]] = {}
    for it in reversed(await records.executions(None, since=since)):
        if it.level is not None and not it.is_dry_run:  # the logs have programs alone, and only what they really did
            sessions.setdefault(it.session.session_id, []).append(it)
    return json.dumps([_session(records, name, executions) for name, executions in sessions.items()], indent=1)


def _session(records: Records, name: str, executions: list[ExecutionRecord]) -> dict[str, Any]:
    ended = [it.ended_at for it in executions]
    tasks = []
    for it in executions:
        fields = execution_json(records, it)
        texts = (fields["description"] or "", fields["code"] or "", it.started_at, it.status.value)
        tasks.append(Task(it.execution_id, *texts, error=fields["error"] or "").as_json())
    return {
        "session_id": f"session-{name}",
        "customer_uid": records.principal.principal_id,  # the form has this name
        "started_at": _moment(executions[0].started_at),
        "ended_at": None if None in ended else _moment(max(filter(None, ended))),
        "tasks": tasks,
    }


def _moment(seconds: float) -> str:
    """A time as the logs of sessions have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
