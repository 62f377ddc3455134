"""The `executions` command: lists executions and shows one with its calls, from the journal or, if that has deleted it,
from the audit; follows and exports them.

Of programs and errors it shows what `state.payloads` allows, of those in the audit what it allowed when they ran;
without the secrets of the configuration.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from codemode_server.cli.arguments import add_config, config_file, count, days
from codemode_server.cli.execution_export import FORMATS, export
from codemode_server.cli.execution_records import ExecutionRecords
from codemode_server.cli.execution_tail import tail
from codemode_server.cli.marked_tokens import show_with_tokens
from codemode_server.cli.running_again import run_again
from codemode_server.cli.terminal import line_width, show
from codemode_server.config import LoadedSettings, load
from codemode_server.domain.ids import ExecutionId
from codemode_server.text import one_line

_MAX_LINE_CHARACTERS = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the newest ones; the default")
    add_config(listing)
    listing.add_argument("--limit", type=count, default=20, metavar="COUNT", help="default 20")
    one = actions.add_parser("show", help="print one with its calls")
    add_config(one)
    one.add_argument("id", metavar="ID", help="as the answer to the program has it")
    one.add_argument(
        "--reveal", action="store_true", help="show you at this terminal what its privacy tokens stand for; recorded"
    )
    following = actions.add_parser("tail", help="follow what programs do, a line for each event, until Ctrl+C")
    add_config(following)
    following.add_argument("id", nargs="?", metavar="ID", help="only this one")
    following.add_argument("--lines", type=count, default=10, metavar="COUNT", help="earlier events first; default 10")
    exporting = actions.add_parser("export", help="print all of them for other software")
    add_config(exporting)
    exporting.add_argument("--format", choices=FORMATS, default="json", help="default json")
    exporting.add_argument("--since", type=days, metavar="DAYS", help="so many days back; default: all")
    exporting.add_argument("--output", type=Path, metavar="FILE", help="a new file that only you can read")
    again = actions.add_parser("resume", help="go on with one that did not come to its end")
    replaying = actions.add_parser("replay", help="run the program of one again, with the journal's answers alone")
    for action in (again, replaying):
        add_config(action)
        action.add_argument("id", metavar="ID", help="as the answer to the program has it")
    for action in (listing, one, again, replaying, following):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded, as_json = load(config_file(parsed)), getattr(parsed, "json", False)
    if parsed.action == "tail":
        execution_id = ExecutionId(parsed.id) if parsed.id else None
        anyio.run(partial(tail, loaded, execution_id, rows=parsed.lines, as_json=as_json))
    if parsed.action == "export":
        since = 0.0 if parsed.since is None else time.time() - parsed.since * 86_400
        anyio.run(partial(export, loaded, parsed.format, since=since, output=parsed.output))
        return 0
    if parsed.action in ("resume", "replay"):
        page, is_success = anyio.run(partial(run_again, loaded, parsed.action, parsed.id, as_json=as_json))
        show(page)
        return 0 if is_success else 1
    if parsed.action == "show":
        page = anyio.run(partial(show_execution, loaded, parsed.id, as_json=as_json))
        show_with_tokens(loaded, page, is_text=not as_json, reveals=parsed.reveal)
    else:
        show(anyio.run(partial(list_executions, loaded, getattr(parsed, "limit", 20), as_json=as_json)))
    return 0


async def list_executions(loaded: LoadedSettings, limit: int, *, as_json: bool) -> str:
    """The newest executions of the local principal, newest first."""
    async with ExecutionRecords(loaded) as reader:
        found = await reader.executions(limit)
    if as_json:
        return json.dumps([reader.execution_json(it) for it in found], indent=2)
    if not found:
        return "no executions are recorded"
    rows = [("id", "started", "status", "sandbox", "calls", "ms", "description"), *map(reader.row, found)]
    width = line_width() or _MAX_LINE_CHARACTERS
    return "\n".join(one_line(line, width) for line in _table(rows).split("\n"))


async def show_execution(loaded: LoadedSettings, execution_id: str, *, as_json: bool) -> str:
    """One execution with its calls.

    Raises:
        CodemodeError: there is none (any more).
    """
    async with ExecutionRecords(loaded) as reader:
        found, calls, code = await reader.execution(ExecutionId(execution_id))
        retries = await reader.retries(found.execution_id)
        waiting = await reader.waiting(found, calls)
    plan = reader.plan(code, calls) if found.is_dry_run else None
    if as_json:
        content = reader.execution_json(found) | {
            "calls": [
                reader.call_json(it, retries.get(it.call.seq, ()), is_waiting=it.call.seq in waiting) for it in calls
            ]
        }
        if plan is not None:
            content["plan"] = {"calls": plan.calls, "unforeseen": plan.unforeseen}
            content["plan"]["arguments_shown"] = not reader.hides_arguments
        return json.dumps(content, indent=2)
    fields = reader.execution_json(found)
    whole, code = code, fields.pop("code")
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in fields.items() if value is not None]
    cells = (reader.call_fields(it, is_waiting=it.call.seq in waiting).values() for it in calls)
    rows = [tuple("-" if value is None else str(value) for value in row) for row in cells]
    if rows:
        lines += ["", _table([("call", "tool", "started", "decision", "reason", "status", "ms", "error"), *rows])]
        lines += [
            f"call {it.call.seq}: {one.reason.words}, at +{one.after_ms(it.started_at):,.0f} ms"
            for it in calls
            for one in retries.get(it.call.seq, ())
        ]
    if plan is not None:
        lines += ["", f"plan ({plan.captured} calls that may change something; none was sent):"]
        lines += [f"  {line}" for line in plan.lines]
        if plan.calls and reader.hides_arguments:
            lines.append("  arguments are not shown: state.payloads is not `all`")
        else:
            lines += ["  the whole arguments: run this again with --json"] if plan.calls else []
        lines += [f"  not foreseen: {line}" for line in plan.unforeseen]
    lines += ["", code] if code else []
    if whole and reader.hides_arguments:
        lines += [
            "",
            "the program and why its calls failed are not shown; `state.payloads: all` in upstream.yaml shows both",
        ]
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
