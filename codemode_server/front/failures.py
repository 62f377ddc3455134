"""A program that did not succeed, as the model gets it: what failed and where, the likely mend, and what had happened.

Hosts cut the text of an error at about 11,000 characters, in the middle of whatever stands there; ours is shorter,
whatever the settings, and what matters stands first.
"""

from __future__ import annotations

from typing import Any

from codemode_server.execution.executor import Execution
from codemode_server.front.shortening import fit_text, shares
from codemode_server.gateway.gateway import CallReport
from codemode_server.gateway.ledger import CallStatus, ExecutionStatus
from codemode_server.redaction import Redactor
from codemode_server.settings import LimitSettings
from codemode_server.text import clean, clean_line, cut_middle
from codemode_server.tokens import estimate_tokens

MOST_CHARACTERS = 10_500
_MOST_TOLD = 3
"""Notes, warnings and the like, of each kind."""
_ONE_BY_ONE = 8
"""Calls that are told singly; of more, the last."""
_LAST = 4
_WAYS_ROUND = {
    "limits.wall_seconds": "do it in several programs that hand on files in /workspace, or have the limit raised",
    "limits.upstream_seconds": "make fewer or narrower calls, and several at once (asyncio.gather, .map)",
    "limits.memory_mb": "work through the data in parts and hold on to what you need only",
    "limits.output_bytes": "print less; write to a file in /workspace",
    "limits.calls": "let the tool filter, or take a tool that gives many at once",
    "limits.call_bytes": "send or ask for less in one call",
    "limits.value_bytes": "return a summary; write the rest to a file in /workspace",
    "limits.workspace_mb": "remove what is not needed under /workspace and /tmp",
}


def render_failure(
    execution: Execution, limits: LimitSettings, redactor: Redactor, told: dict[str, list[str]]
) -> tuple[str, dict[str, Any]]:
    """Text and structured content; `told` is what there is to say beside them, by kind."""

    def safe(text: str) -> str:
        return redactor.text(clean(text))

    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    error, lines = _error(execution, safe)
    if error:
        content["error"] = error
    few = {kind: _few(those) for kind, those in told.items()}
    calls = _calls(execution.caller.reports, error.get("message", ""))
    bracketed = [f"[{kind.removesuffix('s')}: {line}]" for kind, those in few.items() for line in those]
    footer = f"[{execution.status.value} in {execution.milliseconds / 1e3:.2f} s · {_where(execution)}]"
    rest = sum(len(line) + 1 for line in (*lines, *bracketed, *_call_lines(calls), footer))
    streams = _streams(execution, safe, limits.output_tokens, MOST_CHARACTERS - rest)
    content |= streams | few
    content["calls"] = calls
    printed = [f"{name}:\n{text.rstrip(chr(10))}" for name, text in streams.items()]
    return "\n".join([*lines, *printed, *bracketed, *_call_lines(calls), footer]), content


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _MOST_TOLD else [*lines[:_MOST_TOLD], f"… {len(lines) - _MOST_TOLD} more"]


def _where(execution: Execution) -> str:
    return f"{execution.level.value if execution.level else 'not run'} · {execution.execution_id}"


def _error(execution: Execution, safe: Any) -> tuple[dict[str, Any], list[str]]:
    if execution.status is ExecutionStatus.CANCELLED:
        message = "The program was cancelled."
        return {"type": "Cancelled", "message": message}, [message]
    error = execution.outcome.error
    if error is None:
        return {}, []
    told: dict[str, Any] = {
        "type": safe(clean_line(error.type, 100)),
        "message": cut_middle(safe(error.message), 300)[:1_500],
    }
    if error.line is not None:
        told["line"] = error.line
    lines = [f"{told['type']}: {told['message']}"]
    if error.setting and error.line is not None:
        lines.insert(0, f"line {error.line}")
    elif error.traceback:
        told["traceback"] = cut_middle(safe(error.traceback), 500)[:2_500]
        lines = [told["traceback"]]
    if error.setting:
        told["setting"] = error.setting
    hint = clean_line(safe(error.hint), 500) or _WAYS_ROUND.get(error.setting or "", "")
    if hint:
        told["hint"] = hint
        lines.append(f"hint: {hint}")
    return told, lines


def _streams(execution: Execution, safe: Any, budget_tokens: int, characters: int) -> dict[str, str]:
    """What was printed before; of much, little: why it failed is not in there as a rule."""
    whole = {"stdout": safe(execution.outcome.stdout), "stderr": safe(execution.outcome.stderr)}
    budget = min(budget_tokens, 1_000)
    given = shares([estimate_tokens(text) for text in whole.values()], budget)
    room = shares([len(text) for text in whole.values()], max(200, characters - 40))
    return {
        name: fit_text(text, max(50, share), space)
        for (name, text), share, space in zip(whole.items(), given, room, strict=True)
        if text
    }


def _calls(reports: list[CallReport], message: str) -> list[dict[str, Any]]:
    """One entry a call; of many the last ones, and before them one a tool and status."""
    ordered = sorted(reports, key=lambda report: report.seq)
    if len(ordered) <= _ONE_BY_ONE:
        return [_call(report, message) for report in ordered]
    folded: dict[tuple[str, str], dict[str, Any]] = {}
    for report in ordered[:-_LAST]:
        key = (f"{report.server}.{report.tool}", report.status.value)
        entry = folded.setdefault(key, {"tool": key[0], "status": key[1], "count": 0})
        entry["count"] += 1
        if report.error:
            entry.setdefault("error", clean_line(report.error, 150))
    few = list(folded.values())[:_ONE_BY_ONE]
    return [*few, *(_call(report, message) for report in ordered[-_LAST:])]


def _call(report: CallReport, message: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"tool": f"{report.server}.{report.tool}", "status": report.status.value}
    if report.arguments:
        entry["arguments"] = clean_line(report.arguments, 120)
    if report.result:
        entry["result"] = clean_line(report.result, 120)
    if report.error and report.error not in message:
        entry["error"] = clean_line(report.error, 200)
    return entry


def _call_lines(calls: list[dict[str, Any]]) -> list[str]:
    if not calls:
        return []
    has_effects = any(call["status"] == CallStatus.SUCCEEDED.value for call in calls)
    head = "calls (what succeeded has happened; do not repeat its effects):" if has_effects else "calls:"
    return [head, *(f"- {_call_line(call)}" for call in calls)]


def _call_line(call: dict[str, Any]) -> str:
    times = f" x{call['count']}" if "count" in call else f"({call.get('arguments', '')})"
    line = f"{call['tool']}{times} {call['status']}"
    return line + "".join(f": {call[part]}" for part in ("result", "error") if part in call)
