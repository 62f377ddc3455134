"""The plan of a dry run as people and models read it: each captured call in order, and what could not be foreseen."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import CallRecord, PlanReport
from codemode_server.executions.preflight.reading import Reading, read
from codemode_server.features.dry_run.placeholders import text_without_numbers, without_numbers
from codemode_server.features.dry_run.plan import PlannedCall, planned_calls
from codemode_server.sandbox.contract import Outcome
from codemode_server.sandbox.guest.scopes import last_name
from codemode_server.search.actions import is_reading_verb, is_verb
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import first_few

_MAX_VALUE = 120
_MAX_NAMES = 20
_MAX_LINE = 500
_MAX_REASON = 160
_MAX_HELD = 5


def plan_report(records: Sequence[CallRecord], code: str, redactor: Redactor) -> PlanReport:
    """The plan of a dry run with these calls. May take long: to be called in a thread if they are large."""
    planned = planned_calls(records)
    captured = [it for it in planned if not it.refused]
    reading = read(code)
    return PlanReport(
        tuple(_line(it, redactor) for it in planned),
        tuple(_content(it, redactor) for it in planned),
        (() if reading is None else _unforeseen(captured, reading) + _branches(captured, reading))
        + _old_reads(records, captured),
        tuple(dict.fromkeys(f"{it.call.server}.{it.call.tool}" for it in captured if _seems_to_read(it))),
        sum(not it.is_reading for it in captured),
    )


def without_placeholder_numbers(outcome: Outcome) -> Outcome:
    """The outcome of a dry run as people and models read it. May take long: to be called in a thread if it is large."""
    error = outcome.error
    if error is not None:
        message, traceback, hint = map(text_without_numbers, (error.message, error.traceback, error.hint))
        error = replace(error, message=message, traceback=traceback, hint=hint)
    return replace(
        outcome,
        value=without_numbers(outcome.value),
        stdout=text_without_numbers(outcome.stdout),
        stderr=text_without_numbers(outcome.stderr),
        error=error,
    )


def _unforeseen(captured: Sequence[PlannedCall], reading: Reading) -> tuple[str, ...]:
    """A line on the held-back calls whose results the program uses, by the names of their tools."""
    unused = {it.value for it in reading.nodes if isinstance(it, ast.Expr) and it is not reading.last}
    unused |= {it.value for it in unused if isinstance(it, ast.Await)} | _only_shown(reading)
    calls = (node for node in reading.nodes if isinstance(node, ast.Call) and node not in unused)
    named = (it for node in calls for it in ast.walk(node.func) if isinstance(it, ast.Name | ast.Attribute))
    imports = (node for node in reading.nodes if isinstance(node, ast.ImportFrom))
    # Uses of an import under another name are not followed.
    renamed = (alias.name for node in imports for alias in node.names if alias.asname)
    used = {_plain(name) for name in (*map(last_name, named), *renamed)}
    held = [f"call {it.call.seq} ({it.call.tool})" for it in captured if _plain(it.call.tool) in used]
    if not held:
        return ()
    return (
        f"calls that depend on the result of {first_few(held, _MAX_HELD)}, which was not sent: they may be missing "
        "here, or get other arguments",
    )


def _branches(captured: Sequence[PlannedCall], reading: Reading) -> tuple[str, ...]:
    """A line on the branches that depend on results of held-back calls, as far as names and assignments show."""
    tools = {_plain(it.call.tool) for it in captured}
    imported = (alias for node in reading.nodes if isinstance(node, ast.ImportFrom) for alias in node.names)
    names = {it.asname for it in imported if it.asname and _plain(it.name) in tools}
    flows = [flow for node in reading.nodes for flow in _flows(node)]

    def derives(value: ast.AST) -> bool:
        used = [it for it in ast.walk(value) if isinstance(it, ast.Name | ast.Attribute)]
        return any((isinstance(it, ast.Name) and it.id in names) or _plain(last_name(it)) in tools for it in used)

    while new := {name for bound, value in flows if not bound <= names and derives(value) for name in bound}:
        names |= new
    lines = sorted({it.lineno for node in reading.nodes for it in _conditions(node) if derives(it)})
    if not lines:
        return ()
    which = f"line{'s' if len(lines) > 1 else ''} {first_few(list(map(str, lines)), _MAX_HELD)}"
    return (f"{which}: the condition depends on a result that is unknown here, so the program may branch otherwise",)


def _flows(node: ast.AST) -> list[tuple[set[str], ast.AST]]:
    """The names that a statement, loop or function binds, with what their values come from."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [({it.id for target in targets for it in ast.walk(target) if isinstance(it, ast.Name)}, value)]
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            return [({it.id for it in ast.walk(node.target) if isinstance(it, ast.Name)}, node.iter)]
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return [({name}, value)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [({name}, value)]
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            return [({name}, value)]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [({name}, it) for it in ast.walk(node) if isinstance(it, ast.Return)]
    return []


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return [test]
        case ast.comprehension(ifs=tests):
            return tests
        case ast.Match(subject=subject):
            return [subject]
    return []


def _old_reads(records: Sequence[CallRecord], captured: Sequence[PlannedCall]) -> tuple[str, ...]:
    """A line on the calls that read from a server before which a call of the same server was held back."""
    first: dict[str, int] = {}
    for it in captured:
        if not it.is_reading:
            first.setdefault(it.call.server, it.call.seq)
    sent = [it.call for it in records if it.outcome is not None and it.outcome.status is CallStatus.SUCCEEDED]
    old = [f"call {call.seq} ({call.tool})" for call in sent if call.seq > first.get(call.server, call.seq)]
    return (f"{first_few(old, _MAX_HELD)} shows the state before the held-back calls",) if old else ()


def _only_shown(reading: Reading) -> set[ast.expr]:
    """The calls whose results the program does no more with than print or return them."""
    printed = (it for it in reading.nodes if isinstance(it, ast.Call) and last_name(it.func) == "print")
    shown = [value for it in printed for value in it.args]
    if isinstance(reading.last, ast.Expr | ast.Return) and reading.last.value is not None:
        shown.append(reading.last.value)
    without_calls = (it for it in shown if not any(isinstance(node, ast.Call) for node in ast.walk(it)))
    inert = {node for it in without_calls for node in ast.walk(it)}
    used = (it for it in reading.nodes if isinstance(it, ast.Name) and it not in inert)
    names = {it.id for it in used if isinstance(it.ctx, ast.Load)}
    for it in reading.nodes:
        match it:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in names:
                shown.append(value)
    return {it.value if isinstance(it, ast.Await) else it for it in shown}


def _plain(name: str) -> str:
    """A tool's raw name and its Python name alike."""
    return re.sub(r"[\W_]", "", name).lower()


def _seems_to_read(planned: PlannedCall) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+", planned.call.tool)
    verb = next((word for word in map(str.lower, words) if is_verb(word)), "")
    return planned.is_unstated and is_reading_verb(verb)


def from_calls(calls: frozenset[int]) -> str:
    """`call 1`, or `calls 1, 4`."""
    return f"call{'s' if len(calls) > 1 else ''} {', '.join(map(str, sorted(calls)))}"


def _line(planned: PlannedCall, redactor: Redactor) -> str:
    call = planned.call
    remarks = [f"{name} from {from_calls(calls)}" for name, calls in planned.sources.items()]
    if planned.is_unreadable:
        remarks.append("the journal does not hold its arguments")
    if planned.is_reading:
        remarks.append("reads; not sent")
    if planned.destroys:
        remarks.append("destroys")
    if planned.refused:
        remarks.append(f"denied: {planned.refused[:_MAX_REASON]}")
    elif planned.asks:
        remarks.append("asks the user")
    shown = redactor.line(f"{call.server}.{call.tool}({_arguments(call.arguments, redactor)})", _MAX_LINE)
    return f"call {call.seq}: {shown}" + (f"  [{redactor.line('; '.join(remarks), _MAX_LINE)}]" if remarks else "")


def _arguments(arguments: Mapping[str, Any], redactor: Redactor) -> str:
    shown = [f"{name}={_value(value, redactor)}" for name, value in list(arguments.items())[:_MAX_NAMES]]
    return ", ".join([*shown, "…"] if len(arguments) > _MAX_NAMES else shown)


def _value(value: Any, redactor: Redactor) -> str:
    return redactor.line(json.dumps(without_numbers(value), ensure_ascii=False, default=str), _MAX_VALUE)


def _content(planned: PlannedCall, redactor: Redactor) -> dict[str, Any]:
    call = planned.call
    content: dict[str, Any] = {
        "call": call.seq,
        "tool": f"{call.server}.{call.tool}",
        "arguments": None if planned.is_unreadable else redactor.value(without_numbers(call.arguments)),
    }
    content |= {"from_calls": {name: sorted(it) for name, it in planned.sources.items()}} if planned.sources else {}
    content |= {"asks": redactor.text(planned.asks)} if planned.asks else {}
    content |= {"denied": redactor.text(planned.refused)} if planned.refused else {}
    content |= {"destroys": True} if planned.destroys else {}
    return content | ({"only_reads": True} if planned.is_reading else {})
