"""The error of an execution as the model gets it, with what may help."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.executions.execution import Execution
from codemode_server.executions.stored_items import Item
from codemode_server.front.shortening import fit_text
from codemode_server.redaction import Redactor
from codemode_server.text import clean_line

_LINE_END = re.compile(r"\r\n?|\n")
"""Line ends as Python counts them."""
_REMEDIES = {
    "timeout": "an endless loop? Otherwise raise timeout, or split the work into several programs (files in /workspace "
    "stay)",
    "limits.wall_seconds": "an endless loop? Otherwise split the work into several programs (files in /workspace stay)",
    "limits.upstream_seconds": "make fewer or narrower calls, and several at once (asyncio.gather, .map), or do the "
    "rest in a second program (files in /workspace stay)",
    "limits.memory_mb": "work through the data in parts and hold on to what you need only",
    "limits.output_bytes": "print less; write to a file in /workspace",
    "limits.calls": "let the tool filter, or take one that gives many",
    "limits.call_bytes": "send or ask for less in one call",
    "limits.value_bytes": "return a summary; write the rest to a file in /workspace",
    "limits.workspace_mb": "remove what is not needed under /workspace and /tmp; deleting works however full they are",
}


def rendered_error(execution: Execution, redactor: Redactor) -> tuple[dict[str, Any], str]:
    """The error as structured content and as text."""
    safe = redactor.visible
    if execution.status is ExecutionStatus.CANCELLED:
        message = "The program was cancelled."
        return {"type": "Cancelled", "message": message}, message
    error = execution.outcome.error
    if error is None:
        return {}, ""
    fields: dict[str, Any] = {
        "type": clean_line(safe(error.type), 100),
        "message": fit_text(safe(error.message), 300, 1_500),
    }
    text = f"{fields['type']}: {fields['message']}"
    if error.line is not None:
        fields["line"] = error.line
    if error.setting and error.line is not None:
        text = f"{_program_line(execution.code, error.line, safe)}\n{text}"
    elif error.traceback:
        text = fields["traceback"] = fit_text(safe(error.traceback), 500, 2_500)
    if error.setting:
        fields["setting"] = error.setting
    hint = clean_line(safe(error.hint), 500) or _remedy(error.setting or "", execution)
    return fields | ({"hint": hint} if hint else {}), text


def _program_line(code: str, number: int, safe: Callable[[str], str]) -> str:
    lines = _LINE_END.split(code)[number - 1 : number]
    return f"line {number}" + "".join(f": {clean_line(safe(line), 160)}" for line in lines)


def _remedy(setting: str, execution: Execution) -> str:
    remedy = _REMEDIES.get(setting, "")
    if setting == "limits.calls" and isinstance(execution.artifacts.get("calls"), Item):
        remedy += f', or do the rest in another program, from results["{execution.execution_id}"].calls'
    if not remedy or not setting.startswith("limits."):
        return remedy
    beyond = " above limits.call_bytes" if setting in ("limits.output_bytes", "limits.value_bytes") else ""
    return f"{remedy}; the user can raise {setting}{beyond}"
