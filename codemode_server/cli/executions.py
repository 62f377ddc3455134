"""The `executions` command: lists, shows, follows and exports executions, as far as `state.payloads` allows, and runs
one again."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from codemode_server.cli.arguments import count, days
from codemode_server.cli.audit import AuditFollower, AuditLines
from codemode_server.cli.product import run_again
from codemode_server.cli.terminal import (
    configuration,
    line_width,
    local_time,
    require_terminal,
    show,
    show_person,
    table,
)
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus
from codemode_server.domain.history import CallRetry
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.privacy_tokens import revealed_line
from codemode_server.features import create
from codemode_server.records.executions import Records, stored_records
from codemode_server.support.private_files import open_private
from codemode_server.support.text import clean_line, counted, one_line

_LATE_SECONDS = 10.0
_POLL_SECONDS = 0.3
_MAX_LINE_CHARACTERS = 400
_MAX_REVEALED = 50
_MAX_ERROR_CHARACTERS = 300


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the newest ones; the default")
    listing.add_argument("--limit", type=count, default=20, metavar="COUNT", help="default 20")
    one = actions.add_parser("show", help="print one with its calls")
    one.add_argument("id", metavar="ID", help="as the answer to the program has it")
    one.add_argument(
        "--reveal", action="store_true", help="show you at this terminal what its privacy tokens stand for; recorded"
    )
    following = actions.add_parser("tail", help="follow what programs do, a line for each event, until Ctrl+C")
    following.add_argument("id", nargs="?", metavar="ID", help="only this one")
    following.add_argument("--lines", type=count, default=10, metavar="COUNT", help="earlier events first; default 10")
    exporting = actions.add_parser("export", help="print all of them for other software, as lines of JSON")
    exporting.add_argument("--since", type=days, metavar="DAYS", help="so many days back; default: all")
    exporting.add_argument("--output", type=Path, metavar="FILE", help="a new file that only you can read")
    again = actions.add_parser("resume", help="go on with one that did not come to its end")
    replaying = actions.add_parser("replay", help="run the program of one again, with the journal's answers alone")
    for action in (again, replaying):
        action.add_argument("id", metavar="ID", help="as the answer to the program has it")
    for action in (listing, one, again, replaying, following):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded, as_json = configuration(parsed), getattr(parsed, "json", False)
    if parsed.action == "tail":
        execution_id = ExecutionId(parsed.id) if parsed.id else None
        anyio.run(partial(tail, loaded, execution_id, rows=parsed.lines, as_json=as_json))
        return 0
    if parsed.action == "export":
        since = 0.0 if parsed.since is None else time.time() - parsed.since * 86_400
        anyio.run(partial(export, loaded, since=since, output=parsed.output))
        return 0
    if parsed.action in ("resume", "replay"):
        page, is_success = anyio.run(partial(run_again, loaded, parsed.action, parsed.id, as_json=as_json))
        show(page)
        return 0 if is_success else 1
    if parsed.action == "show":
        if parsed.reveal:
            require_terminal()
        show(page := anyio.run(partial(show_execution, loaded, parsed.id, as_json=as_json)))
        if parsed.reveal:
            show_person(anyio.run(_revealed, loaded, page))
    else:
        show(anyio.run(partial(list_executions, loaded, parsed.limit, as_json=as_json)))
    return 0


async def list_executions(loaded: LoadedSettings, limit: int, *, as_json: bool) -> str:
    with stored_records(loaded) as records:
        found = [await records.execution(name) for name in await records.names(limit)]
        executions = [it for it in found if it is not None]
        if as_json:
            return json.dumps([execution_json(records, it) for it in executions], indent=2)
        if not executions:
            return "no executions are recorded"
        heads = ("id", "started", "status", "sandbox", "calls", "ms", "description")
        width = line_width() or _MAX_LINE_CHARACTERS
        rows = table([heads, *(execution_row(records, it) for it in executions)])
        return "\n".join(one_line(line, width) for line in rows)


async def tail(loaded: LoadedSettings, execution_id: ExecutionId | None, *, rows: int, as_json: bool) -> None:
    """Print the last `rows` of the audit, then those that every product of the state folder adds, until cancelled."""
    lines = AuditLines(loaded)
    with closing(Records(loaded)) as records:
        await records.settle()
        of = partial(records.audit.rows, records.principal, execution_id=execution_id)
        newest = await of(limit=max(rows, 1))
        follower = AuditFollower(of, _LATE_SECONDS, newest[-1].event.at if newest else time.time())
        await follower.new()
        new = newest[-rows:] if rows else []
        while True:
            for row in new:
                show(json.dumps(lines.json(row)) if as_json else lines.line(row))
            await anyio.sleep(_POLL_SECONDS)
            new = await follower.new()


async def export(loaded: LoadedSettings, *, since: float, output: Path | None) -> None:
    """Write all executions that started since then, oldest first, to standard output or a new private file."""
    with stored_records(loaded) as records:
        if output is None:
            async for line in exported(records, since):
                show(line)
            return
        try:
            with os.fdopen(open_private(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
                async with aclosing(exported(records, since)) as lines:
                    async for line in lines:
                        file.write(f"{line}\n")
        except FileExistsError as error:
            raise CodemodeError(f"{output} is there already; name a new file") from error
        except OSError as error:
            raise CodemodeError(f"{output} can't be written: {error.strerror}") from error


async def _revealed(loaded: LoadedSettings, page: str) -> str:
    """The values of the privacy tokens of a page, a line each; the audit records it."""
    with stored_records(loaded) as records:
        if (reveals := create("token_reveals", loaded, records.thread)) is None:
            return "there are no privacy tokens in it"
        known = await reveals.known_in(page)
        lines = [revealed_line(await reveals.reveal(token)) for token in known[:_MAX_REVEALED]]
    if len(known) > _MAX_REVEALED:
        lines.append(f"… and {len(known) - _MAX_REVEALED:,} more; `codemode-server privacy show TOKEN` shows one")
    return "\n".join(lines) or "there are no privacy tokens in it"


async def show_execution(loaded: LoadedSettings, execution_id: str, *, as_json: bool) -> str:
    with stored_records(loaded) as records:
        recorded = await records.find(ExecutionId(execution_id))
        if recorded is None:
            raise CodemodeError(
                f"no execution {execution_id!r} is recorded (any more); `codemode-server executions list` shows those "
                "that are"
            )
        execution, calls, code = recorded
        _, retries = await records.history.waits_and_retries(records.principal, execution.execution_id)
        waiting = await records.waiting(execution, calls)
        fields = execution_json(records, execution)
        plan = records.plan(code, calls) if execution.is_dry_run else None
        hides_arguments = records.hides_arguments
        if as_json:
            fields["calls"] = [
                call_json(records, it, retries.get(it.call.seq, ()), is_waiting=it.call.seq in waiting) for it in calls
            ]
            if plan is not None:
                fields["plan"] = {"calls": plan.calls, "unforeseen": plan.unforeseen}
                fields["plan"]["arguments_shown"] = not hides_arguments
            return json.dumps(fields, indent=2)
        cells = [call_fields(records, it, is_waiting=it.call.seq in waiting).values() for it in calls]
    whole, code = code, fields.pop("code")
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in fields.items() if value is not None]
    rows = [tuple("-" if value is None else str(value) for value in row) for row in cells]
    if rows:
        lines += ["", *table([("call", "tool", "started", "decision", "reason", "status", "ms", "error"), *rows])]
        lines += [
            f"call {it.call.seq}: {one.reason.words}, at +{one.after_ms(it.began_at):,.0f} ms"
            for it in calls
            for one in retries.get(it.call.seq, ())
        ]
    if plan is not None:
        lines += ["", f"plan ({counted(plan.captured, 'call')} that may change something; none was sent):"]
        lines += [f"  {line}" for line in plan.lines]
        if plan.calls and hides_arguments:
            lines.append("  arguments are not shown: state.payloads is not `all`")
        else:
            lines += ["  the whole arguments: run this again with --json"] if plan.calls else []
        lines += [f"  not foreseen: {line}" for line in plan.unforeseen]
    lines += ["", code] if code else []
    if whole and hides_arguments:
        lines += [
            "",
            "the program and why its calls failed are not shown; `state.payloads: all` in upstream.yaml shows both for "
            "later programs",
        ]
    return "\n".join(lines)


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
        "ended_at": local_time(it.ended_at) if it.ended_at and it.status is not ExecutionStatus.WAITING else None,
        "milliseconds": None if it.milliseconds is None else round(it.milliseconds),
        "error": records.masked(it.error, _MAX_ERROR_CHARACTERS),
        "code": it.code,
    }


def execution_row(records: Records, it: ExecutionRecord) -> tuple[str, ...]:
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
        "started_at": local_time(it.began_at),
        "decision": it.decision.kind,
        "reason": clean_line(it.decision.reason, 100),
        "status": "waiting" if is_waiting else status,
        "milliseconds": round(outcome.milliseconds) if outcome and not is_waiting else None,
        "error": records.masked(error, _MAX_ERROR_CHARACTERS),
    }


def call_json(
    records: Records, it: CallRecord, retries: Sequence[CallRetry], *, is_waiting: bool = False
) -> dict[str, Any]:
    return call_fields(records, it, is_waiting=is_waiting) | {
        "retries": [{"reason": one.reason.value, "after_ms": round(one.after_ms(it.began_at))} for one in retries]
    }


async def exported(records: Records, since: float) -> AsyncGenerator[str]:
    """All executions that started since then with their calls, oldest first, each as a line of JSON."""
    for name in reversed(await records.names(None, since=since)):
        if (recorded := await records.find(name)) is None:  # it was deleted meanwhile
            continue
        execution, calls, _ = recorded
        _, retries = await records.history.waits_and_retries(records.principal, name)
        shown = [_call_with_values(records, it, retries.get(it.call.seq, ())) for it in calls]
        yield json.dumps(execution_json(records, execution) | {"calls": shown})


def _call_with_values(records: Records, it: CallRecord, retries: Sequence[CallRetry]) -> dict[str, Any]:
    arguments, result = records.values(it)
    return call_json(records, it, retries) | {
        "arguments": None if arguments is None else json.loads(arguments),
        "result": None if result is None else json.loads(result),
    }
