"""A settled execution as the model gets it: bounded text, and structured content for programs that read results.

The text says all that a model needs; the structured content is sent only if `results.structured_content` is on. What a
program prints, returns and raises is its own making, and may be an upstream's: it is cleaned of control characters,
freed of secrets, cut to `limits.output_tokens`, and labelled, apart from what we say ourselves (see `layout`).
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.executions.artifacts import Item
from codemode_server.executions.attachments import ShownFile
from codemode_server.executions.execution import Execution
from codemode_server.executions.preflight.reading import Reading, last_name, read
from codemode_server.front import failures
from codemode_server.front.layout import duration_remark, lay_out, remarks_of, stored_name
from codemode_server.front.shortening import Fitted, as_text, fit_text, fit_value, shares
from codemode_server.gateway.execution_calls import CallReport
from codemode_server.redaction import Redactor
from codemode_server.settings import LimitSettings
from codemode_server.text import clean, clean_in_json, clean_line
from codemode_server.tokens import estimate_tokens

SCHEME = "codemode://results/"
"""URI scheme of the resources under which stored results can be read."""
MAX_CHARACTERS = 200_000
"""Limit for all text of a result, whatever the settings: it may be sent twice, and hosts accept 1 MB altogether."""
_FOLD_ABOVE = 8
"""More calls than this are summed up by tool instead of being listed one by one."""
_MAX_NOTES = 8
_MAX_NOTE = 300
_FEWEST_TOKENS = 50
_NAMED_FROM_TOKENS = 100
"""A whole value of at least so many tokens is named, for a later program to take it from `results`; a smaller one is
written again as easily."""
_MAX_FAILED_CALLS = 3
_MAX_CALLED = 3
_EXITS = frozenset({"exit", "quit", "_exit", "SystemExit"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """An execution as the model gets it."""

    text: str
    content: dict[str, Any]
    is_error: bool
    shown: list[ShownFile]


def render(execution: Execution, limits: LimitSettings, redactor: Redactor) -> Rendered:
    """A settled execution as text and as structured content."""
    if execution.status is not ExecutionStatus.SUCCEEDED:
        text, content = failures.render_failure(execution, limits, redactor, _told(execution, redactor))
        return Rendered(text, content, True, execution.shown)
    made = _Parts.of(execution, limits, redactor)
    content = _head(execution) | made.content | _told(execution, redactor)
    content["calls"] = calls_of(execution.calls.reports)
    return Rendered(_text(execution, content, made), content, False, execution.shown)


@dataclass(slots=True)
class _Parts:
    """A program's value, stdout and stderr, each cut to its share of the budget."""

    value: Fitted | None
    streams: dict[str, str]
    content: dict[str, Any]

    @classmethod
    def of(cls, execution: Execution, limits: LimitSettings, redactor: Redactor) -> _Parts:
        outcome, kept = execution.outcome, execution.kept

        def safe(text: str) -> str:
            # Cleaned first: a secret with control characters within is one once they are gone.
            return redactor.visible(text)

        def safe_in_json(text: str) -> str:
            cleaned = clean(text)
            masked = redactor.visible(text)
            return masked if masked != cleaned else clean_in_json(text)

        budget = max(_FEWEST_TOKENS, limits.output_tokens - _shown_tokens(execution.shown))
        printed = {"stdout": safe(outcome.stdout), "stderr": safe(outcome.stderr)}
        has_value = outcome.value_form != "none"
        whole = as_text(outcome.value) if has_value else ""
        wants = [
            _wanted(whole, budget),
            _wanted(printed["stdout"], budget),
            min(_wanted(printed["stderr"], budget), max(100, budget // 4)),
        ]
        given = shares(wants, budget)
        fitted = None
        if has_value:
            is_text = isinstance(outcome.value, str)
            is_odd_line = is_text and "\r" in outcome.value and "\n" not in outcome.value
            name = stored_name(kept.get("value"))
            fitted = fit_value(
                outcome.value,
                given[0],
                min(_characters(given[0]), limits.value_bytes),
                safe if is_text and not is_odd_line else safe_in_json,
                whole,
                name,
            )
            # A secret of digits may be there as a number.
            value = redactor.value(fitted.value)
            text = json.dumps(value, ensure_ascii=False) if is_odd_line else as_text(value)
            fitted = replace(fitted, value=value, text=text)
        streams = {
            name: fit_text(
                text, share, min(_characters(share), limits.output_bytes), stored_name(execution.kept.get(name))
            )
            for (name, text), share in zip(printed.items(), given[1:], strict=True)
            if text
        }
        content: dict[str, Any] = {}
        if fitted is not None:
            content["value"] = fitted.value
            if outcome.value_form == "repr":
                content["value_is_text"] = True
        content |= streams
        cut = []
        if fitted is not None and fitted.is_cut:
            cut.append(_kept("value", fitted.tokens, kept.get("value")))
        if streams.get("stdout", "") != printed["stdout"]:
            cut.append(_kept("stdout", estimate_tokens(printed["stdout"]), kept.get("stdout")))
        if cut:
            content["cut"] = cut
        return cls(fitted, streams, content)


def _wanted(text: str, budget: int) -> int:
    tokens = estimate_tokens(text)
    return budget if len(text) > _characters(tokens) else min(tokens, budget)


def _characters(tokens: int) -> int:
    return min(max(tokens, _FEWEST_TOKENS) * 6, MAX_CHARACTERS // 2)


def _shown_tokens(shown: list[ShownFile]) -> int:
    return sum(estimate_tokens(file.data.decode()) for file in shown if file.kind == "text")


def _kept(what: str, tokens: int, kept: Item | str | None) -> str:
    if isinstance(kept, Item):
        return f"the whole {what} ({tokens:,} tokens) is kept: from codemode import results; {stored_name(kept)}"
    why = f" ({kept})" if kept else ""
    return f"the whole {what} has {tokens:,} tokens and is not kept{why}: return less, or write it to /workspace"


def _head(execution: Execution) -> dict[str, Any]:
    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    return content


def _told(execution: Execution, redactor: Redactor) -> dict[str, Any]:
    """Lines that follow a program's output (notes, warnings and so on) by kind; kinds without lines are left out."""
    told = {
        "unmarked_errors": list(execution.calls.unmarked_errors.values()),
        "shown": [_shown_line(file) for file in execution.shown],
        "hints": [execution.outcome.hint] if execution.outcome.hint else [],
        "warnings": execution.warnings,
        "notes": execution.calls.messages,
    }
    return {name: _few(lines, redactor) for name, lines in told.items() if lines}


def _shown_line(file: ShownFile) -> str:
    line = f"{file.name or f'file {file.number}'}: {file.mime_type}, {file.size:,} bytes"
    if file.is_within_budget:
        return line
    return f'{line}, past the budget; kept as results["{file.kept_as}"] and {SCHEME}{file.kept_as}'


def _few(lines: list[str], redactor: Redactor) -> list[str]:
    """Each once, a line each, and not too many."""
    unique = list(dict.fromkeys(redactor.line(line, _MAX_NOTE) for line in lines))
    if len(unique) <= _MAX_NOTES:
        return unique
    return [*unique[:_MAX_NOTES], f"… {len(unique) - _MAX_NOTES} more"]


def calls_of(reports: list[CallReport]) -> list[dict[str, Any]]:
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


def _text(execution: Execution, content: dict[str, Any], made: _Parts) -> str:
    ending = None
    if made.value is not None:
        is_repr = execution.outcome.value_form == "repr"
        ending = ("value (repr)" if is_repr else "value", made.value.text or '""')
    remarks = remarks_of(content)
    if ending is None and not made.streams and not execution.shown:
        remarks.insert(0, _nothing_remark(execution))
    shown = "\n".join(made.streams.values()) + (ending[1] if ending else "")
    remarks += _failed_calls(content["calls"], shown) + _name_of_value(execution, made.value)
    return lay_out(made.streams, ending, remarks + duration_remark(execution.milliseconds))


def _nothing_remark(execution: Execution) -> str:
    """Why nothing is shown, and which calls succeeded that do not only read, so that the model does not repeat them."""
    counts = Counter(
        f"{report.server}.{report.tool}" for report in execution.calls.reports if failures.succeeded_with_effect(report)
    )
    named = [f"{tool} x{count}" if count > 1 else tool for tool, count in islice(counts.items(), _MAX_CALLED)]
    called = f"; called: {', '.join([*named, '…'] if len(counts) > _MAX_CALLED else named)}" if counts else ""
    program = read(execution.code)
    if program is None or _may_end_early(program):
        return f"[no output and no value{called}]"
    if isinstance(program.last, ast.Expr):
        return f"[no output: the value of the last expression is None{called}]"
    if called:
        return f"[no output and no value: the program does not end with an expression{called}]"
    return "[no output and no value: end the program with an expression, or print]"


def _may_end_early(program: Reading) -> bool:
    """Whether it may end before its last statement: by `return` at top level, or by an exit."""
    return any(
        last_name(node) in _EXITS or (isinstance(node, ast.Return) and not program.functions(node))
        for node in program.nodes
    )


def _failed_calls(calls: list[dict[str, Any]], shown: str) -> list[str]:
    """Calls whose failure the program caught, so that a result with gaps isn't taken for a whole one.

    An error that the program itself has `shown` is not repeated.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for call in calls:
        if call["status"] != CallStatus.SUCCEEDED.value:
            counts[call["tool"], call["status"], call.get("error", "")] += call.get("count", 1)
    if not counts:
        return []
    failed = [_failed_call(*which, count, shown) for which, count in islice(counts.items(), _MAX_FAILED_CALLS)]
    more = counts.total() - sum(islice(counts.values(), _MAX_FAILED_CALLS))
    total = f"{counts.total():,} calls" if counts.total() > 1 else "call"
    return [f"[{total} failed: {'; '.join(failed)}{f'; and {more:,} more' if more else ''}]"]


def _failed_call(tool: str, status: str, error: str, count: int, shown: str) -> str:
    times = f" x{count}" if count > 1 else ""
    why = f" ({status.replace('_', ' ')})" if status != CallStatus.FAILED.value else ""
    return f"{tool}{times}{why}" + (f": {error}" if error and error not in shown else "")


def _name_of_value(execution: Execution, value: Fitted | None) -> list[str]:
    item = execution.kept.get("value")
    if value is None or value.is_cut or value.tokens < _NAMED_FROM_TOKENS or not isinstance(item, Item):
        return []
    return [f"[kept as {stored_name(item)}]"]
