"""A settled execution as the model gets it: bounded text, and the same as structured content.

What a program prints, returns and raises is its own making, and may be an upstream's: it is cleaned of control
characters and cut to `limits.output_tokens`, and never mixed with what we say ourselves.
"""

from __future__ import annotations

import json
from typing import Any

from codemode_server.execution.executor import Execution
from codemode_server.gateway.gateway import CallReport
from codemode_server.gateway.ledger import CallStatus, ExecutionStatus
from codemode_server.model import JsonValue
from codemode_server.redaction import Redactor
from codemode_server.sandbox.backend import Outcome
from codemode_server.text import clean, clean_line, cut_middle
from codemode_server.tokens import estimate_tokens

_FOLD_ABOVE = 8
"""More calls than this are told by tool, not one by one."""
_MAX_NOTES = 8
_MAX_NOTE = 300
_REMEDY = "return less, or write it to a file in /workspace and return a summary"


def render(execution: Execution, budget_tokens: int, redactor: Redactor) -> tuple[str, dict[str, Any]]:
    """The text and the structured content of a settled execution."""
    outcome = execution.outcome
    stdout = cut_middle(redactor.text(clean(outcome.stdout)), budget_tokens, _REMEDY)
    stderr = cut_middle(redactor.text(clean(outcome.stderr)), max(100, budget_tokens // 4), _REMEDY)
    value, value_text, is_cut = _value(outcome, budget_tokens, redactor)
    calls = _calls(execution.caller.reports)
    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    if outcome.value_form != "none":
        content["value"] = value
        if is_cut or outcome.value_form == "repr":
            content["value_is_text"] = True
    content |= {name: text for name, text in (("stdout", stdout), ("stderr", stderr)) if text}
    if (error := _error(execution, redactor)) is not None:
        content["error"] = error
    content["calls"] = calls
    for name, lines in (("warnings", execution.warnings), ("notes", execution.caller.notes)):
        if told := _told(lines, redactor):
            content[name] = told
    return _text(execution, content, value_text), content


def _value(outcome: Outcome, budget_tokens: int, redactor: Redactor) -> tuple[Any, str, bool]:
    """The value, its text, and whether it had to be cut (the value is the cut text then)."""
    if outcome.value_form == "none":
        return None, "", False
    # Cleaned first: a secret with control characters within is one once they are gone.
    value = redactor.value(_cleaned(outcome.value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    if estimate_tokens(text) <= budget_tokens:
        return value, text, False
    shortened = cut_middle(text, budget_tokens, _REMEDY)
    return shortened, shortened, True


def _cleaned(value: JsonValue) -> JsonValue:
    """A value with all its texts cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return {clean(key): _cleaned(item) for key, item in value.items()} if isinstance(value, dict) else value


def _error(execution: Execution, redactor: Redactor) -> dict[str, Any] | None:
    if execution.status is ExecutionStatus.CANCELLED:
        return {"type": "Cancelled", "message": "The program was cancelled."}
    error = execution.outcome.error
    if error is None:
        return None
    told: dict[str, Any] = {
        "type": redactor.text(clean_line(error.type, 100)),
        "message": cut_middle(redactor.text(clean(error.message)), 600),
    }
    if error.line is not None:
        told["line"] = error.line
    if error.traceback:
        told["traceback"] = cut_middle(redactor.text(clean(error.traceback)), 1_000)
    if error.setting:
        told["setting"] = error.setting
    return told


def _calls(reports: list[CallReport]) -> list[dict[str, Any]]:
    """One entry a call; where there are many, one a tool and status with their count and total time."""
    ordered = sorted(reports, key=lambda report: report.seq)
    if len(ordered) <= _FOLD_ABOVE:
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


def _told(lines: list[str], redactor: Redactor) -> list[str]:
    """Each once, a line each, and not too many."""
    unique = list(dict.fromkeys(redactor.text(clean_line(line, _MAX_NOTE)) for line in lines))
    if len(unique) <= _MAX_NOTES:
        return unique
    return [*unique[:_MAX_NOTES], f"… {len(unique) - _MAX_NOTES} more"]


def _text(execution: Execution, content: dict[str, Any], value_text: str) -> str:
    parts: list[str] = []
    if error := content.get("error"):
        parts.append(error.get("traceback") or f"{error['type']}: {error['message']}")
    if execution.outcome.value_form != "none":
        parts.append(value_text)
    for stream in ("stdout", "stderr"):
        if stream in content:
            label = "" if stream == "stdout" and not parts else f"{stream}:\n"
            parts.append(label + content[stream].rstrip("\n"))
    if not parts:
        parts.append("The program ended without a value or output; end it with an expression, or print.")
    for name in ("warnings", "notes"):
        parts += [f"[{name[:-1]}: {line}]" for line in content.get(name, ())]
    parts.append(_footer(execution, content))
    return "\n".join(parts)


def _footer(execution: Execution, content: dict[str, Any]) -> str:
    told = [f"{execution.status.value} in {execution.milliseconds / 1e3:.2f} s", content.get("isolation", "not run")]
    if calls := content["calls"]:
        told.append("calls: " + ", ".join(map(_call_text, calls)))
    has_effects = any(call["status"] == CallStatus.SUCCEEDED.value for call in calls)
    if content["status"] != ExecutionStatus.SUCCEEDED.value and has_effects:
        told.append("the calls marked succeeded have happened; do not repeat their effects")
    told.append(execution.execution_id)
    return f"[{' · '.join(told)}]"


def _call_text(call: dict[str, Any]) -> str:
    times = f" x{call['count']}" if call.get("count", 1) > 1 else ""
    status = "" if call["status"] == CallStatus.SUCCEEDED.value else f" {call['status']}"
    return f"{call['tool']}{times}{status} {call['ms']} ms"
