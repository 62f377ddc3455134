"""A settled execution as the model gets it: bounded text, and structured content for programs that read results.

    output:                 what the program printed; `stderr:` likewise
    …
    value:                  or `error:` if it failed
    …
    plan (…):               of a dry run
    …
    [warning: …]            remarks, one a line; after a failure the calls, too

Where the whole of a long value is stored stands above all that.

An empty part is left out. What a program prints, returns and raises may come from an upstream: it is cleaned of control
characters, freed of secrets, cut to `limits.output_tokens`, and its lines that imitate a label or a remark of ours are
indented. Hosts cut the text of an error at about 11,000 characters; ours is always shorter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.tools import Effect
from codemode_server.executions.artifacts import Item
from codemode_server.executions.attachments import ShownFile
from codemode_server.executions.execution import Execution
from codemode_server.mcp_server import call_reports
from codemode_server.mcp_server.plan_rendering import plan_content, plan_lines
from codemode_server.mcp_server.shortening import as_text, fit_text, fit_value, shares
from codemode_server.mcp_server.tools.registry import Answer
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import clean, clean_in_json, clean_line, first_few, first_lines
from codemode_server.support.tokens import estimate_tokens

SCHEME = "codemode://results/"
"""URI scheme of the resources under which stored results can be read."""
MAX_CHARACTERS = 200_000
"""Limit for all text of a result, whatever the settings: it may be sent twice, and hosts accept 1 MB altogether."""
MAX_ERROR_CHARACTERS = 10_500
_MAX_ERROR_OUTPUT_TOKENS = 1_000
"""Output before a failure rarely says why the program failed."""
_MIN_TOKENS = 50
_NAMED_FROM_TOKENS = 100
"""A whole value of at least this size is named, for a later program to read; a smaller one is as easily written."""
_LONG_CHARACTERS = 5_000
"""From here on where the whole is stored stands above the text: hosts that cut at 8,000 characters keep the beginning,
and Copilot CLI shows the first 500 characters of what it wrote to a file."""
_MAX_REMARKS = 8
_MAX_ERROR_REMARKS = 3
"""Remarks of each kind."""
_MAX_REMARK_CHARACTERS = 400
_MAX_CALLED = 3
_SAMPLE_ITEMS = 1_000
SLOW_SECONDS = 10.0
"""A program that took longer says so, since its model may want to wait less or know the limits."""
_ENTRY_POINT = re.compile(r"^(async )?def main\(\)", re.MULTILINE)
_LABELS = {"stdout": "output", "stderr": "stderr", "value": "value", "error": "error"}
_REMARKS = {
    "unmarked_errors": "warning",
    "cut": "cut",
    "shown": "shown",
    "hints": "hint",
    "warnings": "warning",
    "notes": "note",
}
"""Fields of the structured content that hold lines → the label of such a line in the text, in the order of the text.
Errors that came as normal results stand first: they matter more than any other remark."""
_OURS = (
    r"\[(?:cut|shown|hint|warning|note|dry run|held back|call|[\d,]+ calls|stored|took|to go on|resumed"
    r"|(?:saved|cost) ≈\d+)\b"
)
_IMITATION = re.compile(
    rf"^(?=(?:output|stderr|value|value \(repr\)|error|calls|plan)\b[^\n]{{0,80}}:$|{_OURS})", re.MULTILINE
)
_REMARK_WITHIN = re.compile(rf"(?={_OURS}[^\]]*:)\[")


def render(execution: Execution, limits: LimitSettings, redactor: Redactor) -> Answer:
    """A settled execution as text and as structured content, without the files that it shows."""
    is_error = execution.status is not ExecutionStatus.SUCCEEDED
    text, content = (_failure if is_error else _success)(execution, limits, redactor)
    return Answer(text, content, is_error=is_error)


def remarks_of(content: Mapping[str, Any]) -> list[str]:
    """The lines in brackets that stand for these fields of the structured content."""
    return [
        f"[{label}: {_REMARK_WITHIN.sub('(', line)}]"
        for field, label in _REMARKS.items()
        for line in content.get(field, ())
    ]


def _success(execution: Execution, limits: LimitSettings, redactor: Redactor) -> tuple[str, dict[str, Any]]:
    shown = sum(estimate_tokens(file.data.decode()) for file in execution.shown if file.kind == "text")
    budget = max(_MIN_TOKENS, limits.output_tokens - shown)
    parts, cut = _fit(execution, limits, redactor, budget, MAX_CHARACTERS)
    has_value = "value" in parts
    content = _head(execution) | parts
    if execution.outcome.value_form == "repr":
        content["value_is_text"] = True
    content |= ({"cut": cut} if cut else {}) | _lines(execution, redactor, _MAX_REMARKS)
    reports = execution.calls.reports
    content["calls"] = call_reports.counted(reports) if reports else []
    wholes = remarks_of({"cut": cut})
    remarks = remarks_of({name: lines for name, lines in content.items() if name != "cut"})
    if not parts and not execution.shown and not execution.is_dry_run:
        remarks.insert(0, _nothing_remark(execution))
    texts = {name: as_text(part) if name == "value" else part for name, part in parts.items()}
    if reports:
        remarks += call_reports.failed_calls(content["calls"], "\n".join(texts.values()))
    stored = execution.artifacts.get("value")
    is_whole = not any("the whole value" in line for line in cut)
    if has_value and is_whole and isinstance(stored, Item) and estimate_tokens(texts["value"]) >= _NAMED_FROM_TOKENS:
        wholes.append(f"[stored as {_expression(stored)}]")
    if (plan := execution.plan) is not None:
        content |= plan_content(plan, redactor)
        remarks = [*plan_lines(plan, execution), *remarks]
    is_long = sum(map(len, texts.values())) > _LONG_CHARACTERS
    remarks = [*call_reports.replayed(reports), *remarks, *([] if is_long else wholes), *_duration(execution)]
    text = _lay_out(texts, remarks, is_repr=execution.outcome.value_form == "repr")
    return "\n".join([*(wholes if is_long else []), text]), content


def _failure(execution: Execution, limits: LimitSettings, redactor: Redactor) -> tuple[str, dict[str, Any]]:
    error, shown = rendered_error(execution, redactor)
    content = _head(execution) | ({"error": error} if error else {})
    lines = _lines(execution, redactor, _MAX_ERROR_REMARKS)
    stored = execution.artifacts.get("calls")
    calls = call_reports.listed(execution.calls.reports, error.get("message", ""), has_results=isinstance(stored, Item))
    hints = [error["hint"]] if "hint" in error else []

    def remarks(cut: list[str]) -> list[str]:
        return [
            *remarks_of(lines | {"cut": cut, "hints": [*hints, *lines.get("hints", [])]}),
            *call_reports.call_lines(calls, execution.calls.reports),
            *_stored_results(execution),
            *_how_to_go_on(execution),
            *(plan_lines(execution.plan, execution) if execution.plan is not None else ()),
            *_duration(execution),
        ]

    rest = sum(len(line) + 1 for line in (shown, *remarks([])))
    budget = min(limits.output_tokens, _MAX_ERROR_OUTPUT_TOKENS)
    parts, cut = _fit(execution, limits, redactor, budget, max(200, MAX_ERROR_CHARACTERS - rest - 400))
    content |= parts | ({"cut": cut} if cut else {}) | {kind: those for kind, those in lines.items() if those}
    content["calls"] = calls
    if execution.plan is not None:
        content |= plan_content(execution.plan, redactor)
    return _lay_out({**parts, "error": shown or execution.status.value}, remarks(cut)), content


def _lay_out(parts: Mapping[str, str], remarks: Iterable[str], *, is_repr: bool = False) -> str:
    texts = []
    for name in ("stdout", "stderr", "value", "error"):
        if name in parts:
            label = "value (repr)" if is_repr and name == "value" else _LABELS[name]
            text = parts[name].rstrip("\n") if name in ("stdout", "stderr") else parts[name] or '""'
            texts.append(f"{label}:\n{_IMITATION.sub(' ', text)}")
    return "\n".join([*texts, *remarks])


def _fit(
    execution: Execution, limits: LimitSettings, redactor: Redactor, budget_tokens: int, max_characters: int
) -> tuple[dict[str, Any], list[str]]:
    outcome, parts, cut = execution.outcome, dict[str, Any](), list[str]()
    has_value = outcome.value_form != "none"
    whole = as_text(outcome.value) if has_value else ""
    printed = {"stdout": redactor.visible(outcome.stdout), "stderr": redactor.visible(outcome.stderr)}
    tokens, room = _rooms([whole, *printed.values()], budget_tokens, max_characters)
    if has_value:
        is_plain_text = isinstance(outcome.value, str)
        safe = redactor.visible if is_plain_text else _safe_in_json(redactor.visible)
        most = min(max(room[0], _MIN_TOKENS), limits.value_bytes)
        fitted = fit_value(outcome.value, tokens[0], most, safe, whole)
        parts["value"] = redactor.value(fitted.value)  # a secret of digits may be there as a number
        if fitted.is_cut:
            cut.append(cut_line(execution, "value", shape_of(outcome.value, redactor), fitted.tokens))
    for (name, text), given, space in zip(printed.items(), tokens[1:], room[1:], strict=True):
        if text:
            parts[name] = fit_text(text, max(given, _MIN_TOKENS), min(max(space, _MIN_TOKENS), limits.output_bytes))
            if parts[name] != text and name == "stdout":
                cut.append(cut_line(execution, name, shape_of(text, redactor), estimate_tokens(text)))
    return parts, cut


def _safe_in_json(visible: Callable[[str], str]) -> Callable[[str], str]:
    def safe(text: str) -> str:
        masked = visible(text)
        return masked if masked != clean(text) else clean_in_json(text)

    return safe


def _rooms(texts: list[str], budget_tokens: int, max_characters: int) -> tuple[list[int], list[int]]:
    """The tokens and the characters that value, stdout and stderr may have."""
    if sum(map(len, texts)) < min(budget_tokens // 2, max_characters):  # no text has two tokens a character
        return [budget_tokens] * 3, [max_characters] * 3
    wanted = [min(estimate_tokens(text), budget_tokens) for text in texts]
    wanted = [
        budget_tokens if len(text) > _characters(count) else count for text, count in zip(texts, wanted, strict=True)
    ]
    if texts[0] or texts[1]:
        wanted[2] = min(wanted[2], max(100, budget_tokens // 4))
    tokens = shares(wanted, budget_tokens)
    room = shares([len(text) for text in texts], max_characters)
    return tokens, [min(share, _characters(given)) for share, given in zip(room, tokens, strict=True)]


def _characters(tokens: int) -> int:
    return min(max(tokens, _MIN_TOKENS) * 6, MAX_CHARACTERS // 2)


def shape_of(value: Any, redactor: Redactor) -> str:
    """Describes a value as a whole: `3,000 dicts with id, name`."""
    match value:
        case str():
            lines = value.count("\n") + (not value.endswith("\n"))
            return f"{lines:,} lines" if lines > 1 else f"{len(value):,} characters"
        case list():
            first = value[0] if value else None
            if isinstance(first, dict) and all(isinstance(item, dict) for item in value[:_SAMPLE_ITEMS]):
                return f"{len(value):,} dicts with {redactor.line(', '.join(islice(first, 20)), 120)}"
            return f"{len(value):,} items"
        case dict():
            return f"a dict of {len(value):,} keys"
        case _:
            return type(value).__name__


def cut_line(execution: Execution, what: str, shape: str, tokens: int) -> str:
    stored, error = execution.artifacts.get(what), execution.outcome.error
    is_ended = what == "stdout" and error is not None and error.setting == "limits.output_bytes"
    name = f"{'the output up to the limit' if is_ended else f'the whole {_LABELS[what]}'} ({shape}, {tokens:,} tokens)"
    if isinstance(stored, Item):
        return f"{name} is stored: from codemode import results; {_expression(stored)}"
    why = f" ({stored})" if stored else ""
    return f"{name} is not stored{why}: return less, or write it to /workspace"


def _expression(stored: Item) -> str:
    return f'results["{stored.name}"]'


def _head(execution: Execution) -> dict[str, Any]:
    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    return content


def _lines(execution: Execution, redactor: Redactor, most: int) -> dict[str, list[str]]:
    shown: dict[str, list[str]] = {}
    if errors := [*execution.calls.unmarked_errors.values()]:
        shown["unmarked_errors"] = first_lines(
            errors, most, line=lambda it: clean_line(it.line(redactor.visible), _MAX_REMARK_CHARACTERS)
        )
    said = {
        "shown": list(map(_shown_line, execution.shown)),
        "hints": [execution.outcome.hint] if execution.outcome.hint else (),
        "warnings": execution.warnings,
        "notes": execution.calls.messages,
    }
    for kind, texts in said.items():
        if texts:
            lines = [redactor.line(line, _MAX_REMARK_CHARACTERS) for line in first_lines([*dict.fromkeys(texts)], most)]
            shown[kind] = [*dict.fromkeys(lines)]
    return shown


def _shown_line(file: ShownFile) -> str:
    line = f"{file.name or f'file {file.number}'}: {file.mime_type}, {file.size:,} bytes"
    if file.is_within_budget:
        return line
    return f'{line}, past the budget; stored as results["{file.artifact}"] and {SCHEME}{file.artifact}'


def _duration(execution: Execution) -> list[str]:
    seconds = execution.milliseconds / 1e3
    return [f"[took {seconds:.0f} s]"] if seconds >= SLOW_SECONDS else []


def _nothing_remark(execution: Execution) -> str:
    """Why nothing is shown, and which calls succeeded that do not only read, so that the model does not repeat them."""
    effective = filter(call_reports.succeeded_with_effect, execution.calls.reports)
    counts = Counter(f"{report.server}.{report.tool}" for report in effective)
    called = [f"{tool} x{count}" if count > 1 else tool for tool, count in counts.items()]
    if called:
        return f"[no output, and the last line gives no value; called: {first_few(called, _MAX_CALLED)}]"
    if (defined := _ENTRY_POINT.search(execution.code)) and len(re.findall(r"\bmain\b", execution.code)) == 1:
        return f"[no output: nothing calls main; end the program with: {'await ' if defined[1] else ''}main()]"
    return "[no output, and the last line gives no value: end the program with an expression, or print]"


def _how_to_go_on(execution: Execution) -> list[str]:
    """How a program goes on that something outside of it has ended; running it anew would repeat its calls."""
    error = execution.outcome.error
    is_own_mistake = execution.status is ExecutionStatus.FAILED and (error is None or error.type != "ToolError")
    passed = (error.setting if error else None) or ""
    is_same_limit = passed.startswith("limits.") and passed != "limits.upstream_seconds"  # the program passes it again
    has_sent = any(it.status.may_have_been_sent for it in execution.calls.reports)
    if is_own_mistake or is_same_limit or execution.is_dry_run or not has_sent:
        return []
    resume = f'execute_code(resume="{execution.execution_id}"), no code'
    message = "" if error is None else error.message
    ended_by = next((it for it in reversed(execution.calls.reports) if it.error and it.error in message), None)
    if ended_by is not None and ended_by.status in (CallStatus.FAILED, CallStatus.INVALID):
        # Only a reading is sent again; any other call gets the recorded error.
        is_repeatable = ended_by.effect is Effect.READS and ended_by.status is CallStatus.FAILED
        otherwise = f"; only if the cause is outside of it, and mended: {resume}" if is_repeatable else ""
        return [f"[to go on: send a corrected program{otherwise}]"]
    command = execution.calls.approvals.questions.get(ended_by.seq) if ended_by is not None else None
    if command and "the user refused it" in message:
        return [f"[to go on only if the user changes their mind ({command}): {resume}]"]
    return [f"[to go on once the cause is mended: {resume}; no call that was answered is sent again]"]


def _stored_results(execution: Execution) -> list[str]:
    match execution.artifacts.get("calls"):
        case Item():
            first = min(it.seq for it in execution.calls.reports if it.status is CallStatus.SUCCEEDED)
            name = f'results["{execution.execution_id}/calls/{first}"]'
            return [f"their results are stored, by number: from codemode import results; {name}"]
        case str(why):
            return [f"their results are not stored: {why}"]
    return []


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
        remedy += f', or do the rest in another program: call N is results["{execution.execution_id}/calls/N"] there'
    if not remedy or not setting.startswith("limits."):
        return remedy
    beyond = " above limits.call_bytes" if setting in ("limits.output_bytes", "limits.value_bytes") else ""
    return f"{remedy}; the user can raise {setting}{beyond}"
