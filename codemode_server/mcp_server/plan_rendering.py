"""The plan of a dry run in an answer: bounded lines of text, structured content, and what to do next."""

from __future__ import annotations

from typing import Any

from codemode_server.domain.executions import ExecutionStatus, PlanReport
from codemode_server.executions.artifacts import Item
from codemode_server.executions.execution import Execution
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import clean_line, counted, first_lines

_MAX_CALLS = 25
_MAX_FAILED_CALLS = 10
"""After a failure there is less room."""
_MAX_CHARACTERS = 240
_MAX_UNSTATED = 3
_ARGUMENT_CHARACTERS = 500


def plan_lines(plan: PlanReport, execution: Execution) -> list[str]:
    """The section with the plan, and the remark that says how to carry it out."""
    name = execution.execution_id
    is_whole = execution.status is ExecutionStatus.SUCCEEDED
    most = _MAX_CALLS if is_whole else _MAX_FAILED_CALLS
    lines = [clean_line(line, _MAX_CHARACTERS) for line in first_lines(plan.lines, most)]
    is_cut = any("…" in line for line in lines)
    lines += [f"not foreseen: {clean_line(line, _MAX_CHARACTERS)}" for line in plan.unforeseen]
    end = "" if is_whole else ", up to where it ended"
    count = f"{counted(plan.captured, 'call')} that may change something"
    head = [f"plan ({count}{end}; nothing was sent):"] if plan.lines else []
    return [
        *head,
        *(f"  {line}" for line in lines if head),
        *_held_back(plan),
        _next_step(plan, name, execution),
        *_stored(execution, is_cut),
    ]


def plan_content(plan: PlanReport, redactor: Redactor) -> dict[str, Any]:
    """The same as structured content; long arguments are cut."""
    calls = [it | {"arguments": _shown(it.get("arguments"), redactor)} for it in plan.calls[:_MAX_CALLS]]
    more = {"more": len(plan.calls) - _MAX_CALLS} if len(plan.calls) > _MAX_CALLS else {}
    return {"plan": {"calls": calls, "unforeseen": list(plan.unforeseen)} | more}


def _held_back(plan: PlanReport) -> list[str]:
    """Says how the user lets dry runs send calls of tools that read without saying so."""
    if not plan.unstated:
        return []
    server, _, tool = plan.unstated[0].partition(".")
    named = clean_line(", ".join(plan.unstated[:_MAX_UNSTATED]), 120)
    setting = clean_line(f"servers.{server}.effects: {{{tool}: read}}", 120)
    return [
        f"[held back since no server says that it only reads: {named}; if it does, the user can declare it in "
        f"upstream.yaml ({setting}), and dry runs send it]"
    ]


def _next_step(plan: PlanReport, name: str, execution: Execution) -> str:
    if plan.captured:
        return (
            f'[dry run: to do it, execute_code(apply="{name}"), no code; the user is asked about calls marked '
            '"asks the user", and about those that differ from the plan or could not be foreseen]'
        )
    if execution.status is ExecutionStatus.SUCCEEDED:
        return "[dry run: the program changes nothing, so there is nothing to apply]"
    return "[dry run: the program changed nothing up to where it ended]"


def _stored(execution: Execution, is_cut: bool) -> list[str]:
    stored = execution.artifacts.get("plan")
    if not is_cut:
        return []
    where = f'from codemode import results; results["{stored.name}"]' if isinstance(stored, Item) else "not stored"
    return [f"[cut: the whole plan, with all arguments: {where}]"]


def _shown(arguments: object, redactor: Redactor) -> dict[str, Any] | None:
    if not isinstance(arguments, dict):
        return None
    return {name: _short(value, redactor) for name, value in arguments.items()}


def _short(value: Any, redactor: Redactor) -> Any:
    text = value if isinstance(value, str) else str(value)
    return value if len(text) <= _ARGUMENT_CHARACTERS else redactor.line(text, _ARGUMENT_CHARACTERS)
