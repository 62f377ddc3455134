"""Renders a failed program for the model: what failed and where, how to fix it, and the calls made before.

Hosts cut the text of an error at about 11,000 characters, wherever that is; ours is always shorter.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.tools import Effect
from codemode_server.executions.artifacts import Item
from codemode_server.executions.execution import Execution
from codemode_server.front.layout import duration_remark, lay_out, remarks_of, stored_name
from codemode_server.front.shortening import fit_text, shares
from codemode_server.gateway.execution_calls import CallReport
from codemode_server.redaction import Redactor
from codemode_server.settings import LimitSettings
from codemode_server.text import clean_line, cut_middle
from codemode_server.tokens import estimate_tokens

MAX_CHARACTERS = 10_500
_MAX_TOLD = 3
"""Lines of each kind (notes, warnings and so on)."""
_ONE_BY_ONE = 8
"""Up to so many calls are listed one by one; of more writes, or more reads without a write, only the last `_LAST`."""
_LAST = 4
_MAX_GROUPS = 4
_MAX_RANGES = 5
_MAX_DIFFERING = 300
"""Characters of the values that tell the calls of a group apart."""
_NEVER_SENT = frozenset({CallStatus.REFUSED, CallStatus.INVALID})
"""Not `unavailable`: the connection may have ended while the call was on its way, so that it may have acted."""
_LINE_END = re.compile(r"\r\n?|\n")
"""What Python counts as one."""
_ANSWERED_WITH_ERROR = "answered with an error"
_WAYS_ROUND = {
    "timeout": "an endless loop? Otherwise raise timeout, or split the work into several programs (files in /workspace "
    "stay)",
    "limits.wall_seconds": "an endless loop? Otherwise split the work into several programs (files in /workspace stay)",
    "limits.upstream_seconds": "make fewer or narrower calls, and several at once (asyncio.gather, .map), or do the "
    "rest in a second program",
    "limits.memory_mb": "work through the data in parts and hold on to what you need only",
    "limits.output_bytes": "print less; write to a file in /workspace",
    "limits.calls": "let the tool filter, take one that gives many, or catch LimitExceeded (no import needed; after "
    ".map and .pages, its .items has the results so far) and return what you have",
    "limits.call_bytes": "send or ask for less in one call",
    "limits.value_bytes": "return a summary; write the rest to a file in /workspace",
    "limits.workspace_mb": "remove what is not needed under /workspace and /tmp; deleting works however full they are",
}


def render_failure(
    execution: Execution, limits: LimitSettings, redactor: Redactor, told: dict[str, list[str]]
) -> tuple[str, dict[str, Any]]:
    """The text and the structured content; `told` has further lines by kind (notes, warnings and so on)."""

    def safe(text: str) -> str:
        return redactor.visible(text)

    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    error, lines = _error(execution, safe)
    if error:
        content["error"] = error
    few = {kind: _few(those) for kind, those in told.items()}
    calls = _calls(execution.calls.reports, error.get("message", ""))
    if not isinstance(execution.kept.get("calls"), Item):
        calls = [{name: part for name, part in call.items() if name != "number"} for call in calls]
    hints = [error["hint"]] if "hint" in error else []
    remarks = [
        *remarks_of(few | {"hints": [*hints, *few.get("hints", [])]}),
        *_call_lines(calls, any(map(succeeded_with_effect, execution.calls.reports))),
        *_stored_results(execution),
        *duration_remark(execution.milliseconds),
    ]
    rest = sum(len(line) + 1 for line in (*lines, *remarks))
    streams = _streams(execution, safe, limits.output_tokens, MAX_CHARACTERS - rest)
    content |= streams | few
    content["calls"] = calls
    ending = ("error", "\n".join(lines or [execution.status.value]))
    return lay_out(streams, ending, remarks), content


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _MAX_TOLD else [*lines[:_MAX_TOLD], f"… {len(lines) - _MAX_TOLD} more"]


def _error(execution: Execution, safe: Any) -> tuple[dict[str, Any], list[str]]:
    if execution.status is ExecutionStatus.CANCELLED:
        message = "The program was cancelled."
        return {"type": "Cancelled", "message": message}, [message]
    error = execution.outcome.error
    if error is None:
        return {}, []
    told: dict[str, Any] = {
        "type": clean_line(safe(error.type), 100),
        "message": cut_middle(safe(error.message), 300)[:1_500],
    }
    if error.line is not None:
        told["line"] = error.line
    lines = [f"{told['type']}: {told['message']}"]
    if error.setting and error.line is not None:
        lines.insert(0, _line(execution.code, error.line, safe))
    elif error.traceback:
        told["traceback"] = cut_middle(safe(error.traceback), 500)[:2_500]
        lines = [told["traceback"]]
    if error.setting:
        told["setting"] = error.setting
    hint = clean_line(safe(error.hint), 500) or _way_round(error.setting or "")
    if hint:
        told["hint"] = hint
    return told, lines


def _line(code: str, number: int, safe: Any) -> str:
    lines = _LINE_END.split(code)[number - 1 : number]
    return f"line {number}" + "".join(f": {clean_line(safe(line), 160)}" for line in lines)


def _way_round(setting: str) -> str:
    way = _WAYS_ROUND.get(setting, "")
    return f"{way}; the user can raise {setting}" if way and setting.startswith("limits.") else way


def _streams(execution: Execution, safe: Any, budget_tokens: int, characters: int) -> dict[str, str]:
    """The output before the failure, cut short: it rarely says why the program failed."""
    whole = {"stdout": safe(execution.outcome.stdout), "stderr": safe(execution.outcome.stderr)}
    budget = min(budget_tokens, 1_000)
    given = shares([estimate_tokens(text) for text in whole.values()], budget)
    room = shares([len(text) for text in whole.values()], max(200, characters - 40))
    return {
        name: fit_text(text, max(50, share), space, stored_name(execution.kept.get(name)))
        for (name, text), share, space in zip(whole.items(), given, room, strict=True)
        if text
    }


def _calls(reports: list[CallReport], message: str) -> list[dict[str, Any]]:
    """One entry a call; of many, those that may write stand first, and the others are counted by tool and status."""
    ordered = sorted(reports, key=lambda report: report.seq)
    if len(ordered) <= _ONE_BY_ONE:
        return [_call(report, message) for report in ordered]
    writes = [report for report in ordered if _may_write(report)]
    others = [report for report in ordered if not _may_write(report)]
    if not writes:
        return _folded_but_last(others, message)
    is_few = len(writes) <= _ONE_BY_ONE
    told = [_call(report, message) for report in writes] if is_few else _folded_but_last(writes, message)
    return [*told, *_folded(others, message)]


def _folded_but_last(reports: list[CallReport], message: str) -> list[dict[str, Any]]:
    return [*_folded(reports[:-_LAST], message), *(_call(report, message) for report in reports[-_LAST:])]


def _folded(reports: list[CallReport], message: str) -> list[dict[str, Any]]:
    """One entry a tool and status, and one that counts the calls of those beyond `_MAX_GROUPS`."""
    groups: dict[tuple[str, str, str], list[CallReport]] = {}
    for report in reports:
        groups.setdefault((report.server, report.tool, _status(report)), []).append(report)
    listed = list(islice(groups.values(), _MAX_GROUPS))
    entries = [_group(those) if len(those) > 1 else _call(those[0], message) for those in listed]
    left_out = len(reports) - sum(map(len, listed))
    return [*entries, {"tool": "others", "status": "not listed", "count": left_out}] if left_out else entries


def _group(reports: list[CallReport]) -> dict[str, Any]:
    first = reports[0]
    entry: dict[str, Any] = {
        "number": _numbers([report.seq for report in reports]),
        "tool": f"{first.server}.{first.tool}",
        "status": _status(first),
        "count": len(reports),
    }
    if _may_write(first) and (arguments := _differing(reports)):
        entry["arguments"] = arguments
    if error := next((report.error for report in reports if report.error), None):
        entry["error"] = clean_line(error, 150)
    return entry


def _numbers(numbers: list[int]) -> str:
    """`1-3, 7`; of many ranges the first ones."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    shown = ["-".join(map(str, ends)) for ends in ranges[:_MAX_RANGES]]
    return ", ".join([*shown, "…"] if len(ranges) > _MAX_RANGES else shown)


def _differing(reports: list[CallReport]) -> str:
    """The argument that tells these calls of one tool apart, with its values: `path="a.txt", "b.txt", … 3 more`."""
    values: dict[str, dict[str, None]] = {}
    for report in reports:
        for name, value in report.arguments.items():
            values.setdefault(name, {})[value] = None
    name = max(values, key=lambda name: len(values[name]), default="")
    if not name or len(values[name]) < 2:
        return ""
    shown: list[str] = []
    for value in values[name]:
        if sum(map(len, shown)) + len(value) > _MAX_DIFFERING:
            break
        shown.append(value)
    more = len(values[name]) - len(shown)
    return f"{name}={', '.join([*shown, f'… {more} more'] if more else shown)}"


def _status(report: CallReport) -> str:
    return _ANSWERED_WITH_ERROR if report.has_error_text else report.status.value


def _call(report: CallReport, message: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": str(report.seq),
        "tool": f"{report.server}.{report.tool}",
        "status": _status(report),
    }
    if report.arguments:
        written = ", ".join(f"{name}={value}" if value else name for name, value in report.arguments.items())
        entry["arguments"] = clean_line(written, 120)
    if report.result and not report.has_error_text:  # a note has that text
        entry["result"] = clean_line(report.result, 120)
    if report.error and report.error not in message:
        entry["error"] = clean_line(report.error, 200)
    return entry


def _may_write(report: CallReport) -> bool:
    """Whether a call that was sent may have changed something, however it ended."""
    return report.effect is not Effect.READS and report.status not in _NEVER_SENT


def succeeded_with_effect(report: CallReport) -> bool:
    """Whether a call succeeded that does not only read."""
    return report.status is CallStatus.SUCCEEDED and report.effect is not Effect.READS and not report.has_error_text


def _call_lines(calls: list[dict[str, Any]], has_effects: bool) -> list[str]:
    if not calls:
        return []
    head = "calls (what succeeded has happened; do not repeat its effects):" if has_effects else "calls:"
    return [head, *(f"- {_call_line(call)}" for call in calls)]


def _stored_results(execution: Execution) -> list[str]:
    """How the next program gets the results of the calls that succeeded."""
    match execution.kept.get("calls"):
        case Item():
            first = min(it.seq for it in execution.calls.reports if it.status is CallStatus.SUCCEEDED)
            read = f'from codemode import results; results["{execution.execution_id}"].calls[{first}]'
            return [f"their results are kept, by number: {read}"]
        case str(why):
            return [f"their results are not kept: {why}"]
    return []


def _call_line(call: dict[str, Any]) -> str:
    arguments = f"({call.get('arguments', '')})"
    if "count" in call:
        arguments = f" x{call['count']}" + (f" {arguments}" if "arguments" in call else "")
    number = f"[{call['number']}] " if "number" in call else ""
    line = f"{number}{call['tool']}{arguments} {call['status']}"
    return line + "".join(f": {call[part]}" for part in ("result", "error") if part in call)
