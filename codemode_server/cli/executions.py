"""The `executions` command: lists executions and shows one with its calls, from the journal or, if that has deleted it,
from the audit; checks that nobody changed the audit.

Of programs and errors it shows what `state.payloads` allows, of those in the audit what it allowed when they ran;
without the secrets of the configuration.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.running_again import run_again
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.executions.plan_report import PlanReport, plan_report
from codemode_server.executions.recording import code_as_configured
from codemode_server.first_listing import state_folder
from codemode_server.gateway.audit_history import read_execution
from codemode_server.redaction import Redactor
from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_cipher import JournalCipher
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.text import clean_line

_MAX_ERROR_CHARACTERS = 300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the newest ones; the default")
    add_config(listing)
    listing.add_argument("--limit", type=int, default=20, metavar="COUNT", help="default 20")
    one = actions.add_parser("show", help="print one with its calls")
    add_config(one)
    one.add_argument("id", metavar="ID", help="as the answer to the program has it")
    verifying = actions.add_parser("verify", help="check that nobody changed the audit; exit code 1 if it was changed")
    add_config(verifying)
    again = actions.add_parser("resume", help="go on with one that did not come to its end")
    replaying = actions.add_parser("replay", help="run the program of one again, with the journal's answers alone")
    for action in (again, replaying):
        add_config(action)
        action.add_argument("id", metavar="ID", help="as the answer to the program has it")
    for action in (listing, one, again, replaying, verifying):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded, as_json = load(config_file(parsed)), getattr(parsed, "json", False)
    if parsed.action == "verify":
        verification = anyio.run(verify_audit, loaded)
        show(json.dumps(verification.as_json(), indent=2) if as_json else verification.text)
        return 0 if verification.broken_row is None else 1
    if parsed.action in ("resume", "replay"):
        page, is_success = anyio.run(partial(run_again, loaded, parsed.action, parsed.id, as_json=as_json))
        show(page)
        return 0 if is_success else 1
    if parsed.action == "show":
        page = anyio.run(partial(show_execution, loaded, parsed.id, as_json=as_json))
    else:
        page = anyio.run(partial(list_executions, loaded, getattr(parsed, "limit", 20), as_json=as_json))
    show(page)
    return 0


async def list_executions(loaded: LoadedSettings, limit: int, *, as_json: bool) -> str:
    """The newest executions of the local principal, newest first."""
    async with _Records(loaded) as reader:
        found = await reader.executions(limit)
    if as_json:
        return json.dumps([reader.execution_json(it) for it in found], indent=2)
    if not found:
        return "no executions are recorded"
    rows = [("id", "started", "status", "sandbox", "calls", "ms", "description"), *map(reader.row, found)]
    return _table(rows)


async def show_execution(loaded: LoadedSettings, execution_id: str, *, as_json: bool) -> str:
    """One execution with its calls.

    Raises:
        CodemodeError: there is none (any more).
    """
    async with _Records(loaded) as reader:
        found, calls, code = await reader.execution(ExecutionId(execution_id))
    plan = reader.plan(code, calls) if found.is_dry_run else None
    if as_json:
        content = reader.execution_json(found) | {"calls": [reader.call_json(it) for it in calls]}
        if plan is not None:
            content["plan"] = {"calls": plan.calls, "unforeseen": plan.unforeseen}
            content["plan"]["arguments_shown"] = not reader.hides_arguments
        return json.dumps(content, indent=2)
    fields = reader.execution_json(found)
    code = fields.pop("code")
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in fields.items() if value is not None]
    rows = [tuple("-" if value is None else str(value) for value in reader.call_json(it).values()) for it in calls]
    if rows:
        lines += ["", _table([("call", "tool", "started", "decision", "reason", "status", "ms", "error"), *rows])]
    if plan is not None:
        lines += ["", f"plan ({plan.captured} calls that may change something; none was sent):"]
        lines += [f"  {line}" for line in plan.lines]
        if plan.calls and reader.hides_arguments:
            lines.append("  arguments are not shown: state.payloads is not `all`")
        else:
            lines += ["  the whole arguments: run this again with --json"] if plan.calls else []
        lines += [f"  not foreseen: {line}" for line in plan.unforeseen]
    return "\n".join([*lines, *(["", code] if code else [])])


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the audit's hash chain found."""

    rows: int = 0
    newest_digest: str = ""
    broken_row: int | None = None
    """The first row that does not fit."""

    @property
    def text(self) -> str:
        if not self.rows:
            return "the audit has no rows"
        if self.broken_row is None:
            return (
                f"the audit is sound: {self.rows:,} rows, each with the digest of the row before it\n"
                f"newest digest: {self.newest_digest}\n"
                "Rows that somebody removes at the end do not show; a note of the newest digest, kept elsewhere, "
                "proves that they were there."
            )
        return (
            f"the audit is broken at row {self.broken_row}: this row was changed or inserted, or rows before it were "
            "removed, by something other than codemode-server\n"
            f"The rows before {self.broken_row} are as they were written; what follows proves nothing. Keep a copy of "
            f"{FILE_NAME} and find out who could write it."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "is_sound": self.broken_row is None,
            "rows": self.rows,
            "newest_digest": self.newest_digest or None,
            "first_broken_row": self.broken_row,
        }


async def verify_audit(loaded: LoadedSettings) -> Verification:
    """Check the hash chain of the audit; all principals are in one chain."""
    async with _Records(loaded) as reader:
        return await reader.verification()


@dataclass(slots=True)
class _Records:
    """Opens the database of the configuration's state folder, and shows its values as configured."""

    loaded: LoadedSettings
    _thread: DatabaseThread | None = None

    async def __aenter__(self) -> _Records:
        folder = state_folder(self.loaded.settings)
        if (folder / FILE_NAME).exists():
            self._thread = DatabaseThread(folder)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.close()

    async def executions(self, limit: int) -> list[ExecutionRecord]:
        if self._thread is None:
            return []
        audit, journal = SqliteAudit(self._thread), self._journal(self._thread)
        found = {it.execution_id: it for it in await audit.executions(self._principal, limit=limit)}
        found |= {it.execution_id: self._shown(it) for it in await journal.executions(self._principal, limit=limit)}
        return sorted(found.values(), key=lambda it: it.started_at, reverse=True)[:limit]

    async def execution(self, execution_id: ExecutionId) -> tuple[ExecutionRecord, list[CallRecord], str]:
        """The execution, its calls and its whole program, empty if that is not recorded."""
        if self._thread is not None:
            journal = self._journal(self._thread)
            if (found := await journal.execution(self._principal, execution_id)) is not None:
                calls = list(await journal.calls(self._principal, execution_id))
                return self._shown(found), calls, found.code or ""
            if (audited := await read_execution(SqliteAudit(self._thread), self._principal, execution_id)) is not None:
                return *audited, ""
        raise CodemodeError(
            f"no execution {execution_id!r} is recorded (any more); `codemode-server executions list` shows those that "
            "are"
        )

    async def verification(self) -> Verification:
        if self._thread is None:
            return Verification()
        audit = SqliteAudit(self._thread)
        broken_row = await audit.first_broken_row()
        return Verification(*await audit.extent(), broken_row)

    def plan(self, code: str, calls: Sequence[CallRecord]) -> PlanReport:
        """The plan of a dry run, with its arguments if the configuration lets values be recorded."""
        if self.hides_arguments:
            code, calls = "", [replace(it, call=replace(it.call, arguments={})) for it in calls]
        return plan_report(calls, code, self._config.redactor)

    @property
    def hides_arguments(self) -> bool:
        return self._config.payloads != "all"

    def execution_json(self, it: ExecutionRecord) -> dict[str, Any]:
        return {
            "execution_id": it.execution_id,
            "kind": "dry run" if it.is_dry_run else it.kind.value,
            "applies": it.applies,
            "description": self._error(it.description),
            "status": it.status.value,
            "sandbox": it.level.value if it.level else None,
            "session": it.session.session_id,
            "started_at": _time(it.started_at),
            "ended_at": _time(it.ended_at) if it.ended_at else None,
            "milliseconds": None if it.milliseconds is None else round(it.milliseconds),
            "error": self._error(it.error),
            "code": it.code,
        }

    def row(self, it: ExecutionRecord) -> tuple[str, ...]:
        """Its line in a list."""
        level = it.level.value if it.level else f"none ({it.kind.value})"
        status = f"{it.status.value} (dry run)" if it.is_dry_run else it.status.value
        numbers = _number(it.calls), _number(it.milliseconds)
        description = clean_line(self._error(it.description) or "", 60)
        return it.execution_id, _time(it.started_at), status, level, *numbers, description

    def call_json(self, it: CallRecord) -> dict[str, Any]:
        outcome = it.outcome
        return {
            "call": it.call.seq,
            "tool": clean_line(f"{it.call.server}.{it.call.tool}", 100),
            "started_at": _time(it.started_at),
            "decision": it.decision.kind,
            "reason": clean_line(it.decision.reason, 100),
            "status": outcome.status.value if outcome else "unknown",
            "milliseconds": round(outcome.milliseconds) if outcome else None,
            "error": self._error(outcome.error) if outcome and self._config.payloads == "all" else None,
        }

    def _shown(self, it: ExecutionRecord) -> ExecutionRecord:
        """An execution of the journal, which has its code complete."""
        return replace(it, code=None if it.code is None else code_as_configured(it.code, self._config))

    def _error(self, error: str | None) -> str | None:
        return None if error is None else clean_line(self._config.redactor.visible(error), _MAX_ERROR_CHARACTERS)

    def _journal(self, thread: DatabaseThread) -> SqliteJournal:
        return SqliteJournal(thread, JournalCipher(state_folder(self.loaded.settings)))

    @property
    def _config(self) -> LiveConfig:
        return LiveConfig(self.loaded.settings, Redactor(self.loaded.secrets, self.loaded.guarded_secrets))

    @property
    def _principal(self) -> Principal:
        return local_principal(self.loaded.settings)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
