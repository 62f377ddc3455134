"""A settled execution as the model gets it: bounded text, and the same as structured content.

Some hosts show the model the text, others the structured content, so each says all there is. What a program prints,
returns and raises is its own making, and may be an upstream's: it is cleaned of control characters, freed of secrets,
cut to `limits.output_tokens`, and never mixed with what we say ourselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from codemode_server.execution.executor import Execution
from codemode_server.execution.kept import Item
from codemode_server.execution.showing import ShownFile
from codemode_server.front import failures
from codemode_server.front.shortening import Fitted, as_text, fit_text, fit_value, shares
from codemode_server.gateway.gateway import CallReport
from codemode_server.gateway.ledger import CallStatus, ExecutionStatus
from codemode_server.redaction import Redactor
from codemode_server.settings import LimitSettings
from codemode_server.text import clean, clean_line
from codemode_server.tokens import estimate_tokens

SCHEME = "codemode://results/"
"""Of the resources that what is kept can be read as."""
MOST_CHARACTERS = 200_000
"""Of all text of a result, whatever the settings: it is sent twice, and hosts take no more than 1 MB altogether."""
_FOLD_ABOVE = 8
"""More calls than this are told by tool, not one by one."""
_MAX_NOTES = 8
_MAX_NOTE = 300
_FEWEST_TOKENS = 50


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the model gets of an execution."""

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
    content["calls"] = calls_of(execution.caller.reports)
    return Rendered(_text(execution, content, made), content, False, execution.shown)


@dataclass(slots=True)
class _Parts:
    """What a program gave: its value, stdout and stderr, each within its share of the budget."""

    value: Fitted | None
    streams: dict[str, str]
    content: dict[str, Any]

    @classmethod
    def of(cls, execution: Execution, limits: LimitSettings, redactor: Redactor) -> _Parts:
        outcome = execution.outcome

        def safe(text: str) -> str:
            # Cleaned first: a secret with control characters within is one once they are gone.
            return redactor.text(clean(text))

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
            fitted = fit_value(outcome.value, given[0], _characters(given[0]), safe, whole)
            # A secret of digits may be there as a number.
            value = redactor.value(fitted.value)
            fitted = replace(fitted, value=value, text=as_text(value))
        streams = {
            name: fit_text(text, share, _characters(share))
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
            cut.append(_kept("value", fitted.tokens, execution.kept.get("value")))
        if streams.get("stdout", "") != printed["stdout"]:
            cut.append(_kept("stdout", estimate_tokens(printed["stdout"]), execution.kept.get("stdout")))
        if cut:
            content["cut"] = cut
        return cls(fitted, streams, content)


def _wanted(text: str, budget: int) -> int:
    tokens = estimate_tokens(text)
    return budget if len(text) > _characters(tokens) else min(tokens, budget)


def _characters(tokens: int) -> int:
    return min(max(tokens, _FEWEST_TOKENS) * 6, MOST_CHARACTERS // 2)


def _shown_tokens(shown: list[ShownFile]) -> int:
    return sum(estimate_tokens(file.data.decode()) for file in shown if file.kind == "text")


def _kept(what: str, tokens: int, kept: Item | str | None) -> str:
    if isinstance(kept, Item):
        return f'the whole {what} ({tokens:,} tokens) is kept: from codemode import results; results["{kept.name}"]'
    why = f" ({kept})" if kept else ""
    return f"the whole {what} has {tokens:,} tokens and is not kept{why}: return less, or write it to /workspace"


def _head(execution: Execution) -> dict[str, Any]:
    content: dict[str, Any] = {"status": execution.status.value, "execution_id": execution.execution_id}
    if execution.level is not None:
        content["isolation"] = execution.level.value
    return content


def _told(execution: Execution, redactor: Redactor) -> dict[str, Any]:
    """What there is to say beside what the program gave: lists of lines, those that are not empty."""
    told = {
        "shown": [_shown_line(file) for file in execution.shown],
        "hints": [execution.outcome.hint] if execution.outcome.hint else [],
        "warnings": execution.warnings,
        "notes": execution.caller.notes,
    }
    return {name: _few(lines, redactor) for name, lines in told.items() if lines}


def _shown_line(file: ShownFile) -> str:
    line = f"{file.name or f'file {file.number}'}: {file.mime_type}, {file.size:,} bytes"
    if file.is_within_budget:
        return line
    return f'{line}, past the budget; kept as results["{file.kept_as}"] and {SCHEME}{file.kept_as}'


def _few(lines: list[str], redactor: Redactor) -> list[str]:
    """Each once, a line each, and not too many."""
    unique = list(dict.fromkeys(redactor.text(clean_line(line, _MAX_NOTE)) for line in lines))
    if len(unique) <= _MAX_NOTES:
        return unique
    return [*unique[:_MAX_NOTES], f"… {len(unique) - _MAX_NOTES} more"]


def beside(content: dict[str, Any]) -> list[str]:
    """The lines in brackets after what a program gave."""
    singular = {"cut": "cut", "shown": "shown", "hints": "hint", "warnings": "warning", "notes": "note"}
    return [f"[{name}: {line}]" for field, name in singular.items() for line in content.get(field, ())]


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
    parts = [made.value.text] if made.value is not None else []
    for stream, text in made.streams.items():
        label = "" if stream == "stdout" and not parts else f"{stream}:\n"
        parts.append(label + text.rstrip("\n"))
    if not parts and not execution.shown:
        parts.append("The program ended without a value or output; end it with an expression, or print.")
    parts += beside(content)
    told = [f"succeeded in {execution.milliseconds / 1e3:.2f} s", content.get("isolation", "not run")]
    if calls := content["calls"]:
        told.append("calls: " + ", ".join(map(_call_text, calls)))
    told.append(execution.execution_id)
    return "\n".join([*parts, f"[{' · '.join(told)}]"])


def _call_text(call: dict[str, Any]) -> str:
    times = f" x{call['count']}" if call.get("count", 1) > 1 else ""
    status = "" if call["status"] == CallStatus.SUCCEEDED.value else f" {call['status']}"
    return f"{call['tool']}{times}{status} {call['ms']} ms"
