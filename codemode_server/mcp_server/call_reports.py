"""The calls of an execution as its answer lists them: counted if it succeeded, with what they did if it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from codemode_server.calls.execution_calls import CallReport
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.tools import Effect
from codemode_server.support.text import clean_line, first_few, first_lines

_ONE_BY_ONE = 8
"""Up to so many calls are listed one by one. After a failure, of more calls only the last that may write; if none may,
the last `_LAST`."""
_LAST = 4
_MAX_GROUPS = 4
_MAX_RANGES = 5
_MAX_FAILED = 3
_ANSWERED_WITH_ERROR = "answered with an error"
_REPLAYED = "(in the first run; not sent again)"
_GIVEN_UP = "cancelled by the program before the answer; the server may still have done it"


def counted(reports: list[CallReport]) -> list[dict[str, Any]]:
    """One entry a call; where there are many, one a tool and status with their count and total time. The program
    succeeded, so it gave up the calls that were cancelled."""
    ordered = sorted(reports, key=lambda report: report.seq)
    ordered = [replace(it, error=_GIVEN_UP) if it.status is CallStatus.CANCELLED else it for it in ordered]
    if len(ordered) <= _ONE_BY_ONE:
        return [
            {"tool": f"{r.server}.{r.tool}", "status": r.status.value, "ms": round(r.milliseconds)}
            | ({"error": clean_line(r.error, 200)} if r.error else {})
            for r in ordered
        ]
    folded: dict[tuple[str, str], dict[str, Any]] = {}
    for report in ordered:
        key = (f"{report.server}.{report.tool}", report.status.value)
        entry = folded.setdefault(key, {"tool": key[0], "status": key[1], "ms": 0.0, "count": 0})
        entry["count"] += 1
        entry["ms"] += report.milliseconds
        if report.error:
            entry.setdefault("error", clean_line(report.error, 200))
    return [entry | {"ms": round(entry["ms"])} for entry in folded.values()]


def failed_calls(calls: list[dict[str, Any]], shown: str) -> list[str]:
    """Calls whose failure the program caught, so that a result with gaps isn't taken for a whole one. An error that the
    program itself has `shown` is not repeated."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in calls:
        if call["status"] not in (CallStatus.SUCCEEDED.value, CallStatus.CAPTURED.value):
            error = call.get("error", "")
            counts[call["tool"], call["status"], "" if error in shown else error] += call.get("count", 1)
    if not counts:
        return []
    failed = [_failed_call(*which, count) for which, count in islice(counts.items(), _MAX_FAILED)]
    if more := counts.total() - sum(islice(counts.values(), _MAX_FAILED)):
        failed.append(f"and {more:,} more")
    total = f"{counts.total():,} calls" if counts.total() > 1 else "call"
    return [f"[{total} failed: {'; '.join(failed)}]"]


def _failed_call(tool: str, status: str, error: str, count: int) -> str:
    times = f" x{count}" if count > 1 else ""
    why = f" ({status.replace('_', ' ')})" if status != CallStatus.FAILED.value else ""
    return f"{tool}{times}{why}" + (f": {error}" if error else "")


def listed(reports: list[CallReport], message: str, *, has_results: bool) -> list[dict[str, Any]]:
    """The calls of a failed program, one entry a call; of many, those that may write stand first, and the others are
    counted by tool and status. `message` is the program's error, which is not repeated; with `has_results` they are
    numbered."""
    shown, rest = sorted(reports, key=lambda report: report.seq), list[CallReport]()
    if len(shown) > _ONE_BY_ONE:
        ordered, writes = shown, [it for it in shown if it.effect is not Effect.READS and it.status.may_have_been_sent]
        shown = writes[-_ONE_BY_ONE:] or ordered[-_LAST:]
        numbers = {report.seq for report in shown}
        rest = [report for report in ordered if report.seq not in numbers]
    calls = [*(_call(report, message) for report in shown), *_folded(rest, message)]
    return calls if has_results else [{key: it for key, it in call.items() if key != "number"} for call in calls]


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
    if result := next((report.result for report in reports if report.result and not report.has_error_text), None):
        entry["result"] = f"each like {clean_line(result, 100)}"
    if error := next((report.error for report in reports if report.error), None):
        entry["error"] = clean_line(error, 150)
    return entry


def _numbers(numbers: list[int]) -> str:
    ranges = [[number for _, number in group] for _, group in groupby(enumerate(numbers), lambda it: it[1] - it[0])]
    return ", ".join(
        first_lines([str(it[0]) if len(it) == 1 else f"{it[0]}-{it[-1]}" for it in ranges], _MAX_RANGES, "…")
    )


def replayed(reports: Sequence[CallReport]) -> list[str]:
    """A line on the calls of a resumed program that were not sent again; none of other programs."""
    those = [it for it in reports if it.is_replayed]
    if not those:
        return []
    called = first_few([f"{tool} x{n}" for tool, n in Counter(f"{it.server}.{it.tool}" for it in those).items()], 3)
    one = f"call {those[0].seq} ({those[0].server}.{those[0].tool}) was"
    many = f"{len(those):,} calls ({called}) were"
    return [f"[resumed: {one if len(those) == 1 else many} answered from the first run, not sent again]"]


def _status(report: CallReport) -> str:
    status = _ANSWERED_WITH_ERROR if report.has_error_text else report.status.value
    return f"{status} {_REPLAYED}" if report.is_replayed else status


def _call(report: CallReport, message: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": str(report.seq),
        "tool": f"{report.server}.{report.tool}",
        "status": _status(report),
    }
    if report.arguments:
        written = ", ".join(f"{name}={value}" if value else name for name, value in report.arguments.items())
        entry["arguments"] = clean_line(written, 120)
    if report.result and not report.has_error_text:  # a remark has that text
        entry["result"] = clean_line(report.result, 120)
    if report.error and report.error not in message:
        entry["error"] = clean_line(report.error, 200)
    return entry


def succeeded_with_effect(report: CallReport) -> bool:
    """True if a call succeeded that does not only read."""
    return report.status is CallStatus.SUCCEEDED and report.effect is not Effect.READS and not report.has_error_text


def call_lines(calls: list[dict[str, Any]], reports: Sequence[CallReport]) -> list[str]:
    """The entries of `listed` as text."""
    if not calls:
        return []
    has_effects = any(map(succeeded_with_effect, reports))
    head = "calls (what succeeded has happened; do not repeat its effects):" if has_effects else "calls:"
    return [head, *(f"- {_call_line(call)}" for call in calls)]


def _call_line(call: dict[str, Any]) -> str:
    arguments = f" x{call['count']}" if "count" in call else f"({call.get('arguments', '')})"
    number = f"[{call['number']}] " if "number" in call else ""
    line = f"{number}{call['tool']}{arguments} {call['status']}"
    return line + "".join(f": {call[part]}" for part in ("result", "error") if part in call)
