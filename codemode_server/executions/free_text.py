"""Takes free text out of what the model gets of a program, where its session has read private data and the
configuration forbids it (`privacy.private_free_text`).

Numbers, booleans and the closed enumerations that tools declare stay, and keys that the program writes out.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from codemode_server.executions.execution import Execution
from codemode_server.field_names import is_field_name
from codemode_server.sandbox.contract import Outcome, ProgramError

WITHHELD = "[text withheld]"
NOTE = (
    "text is withheld, since this session has read private data (the user's setting privacy.private_free_text): only "
    "numbers, booleans and values of declared enumerations are shown"
)
_MAX_INTEGER = 2**53
_MIN_KEY_CHARACTERS = 2
_MAX_DEPTH = 100


def withhold_text(execution: Execution) -> None:
    """Leave only what may be shown. Does nothing if all text may be; may be called twice."""
    if not execution.context.hides_text:
        return
    calls = execution.calls
    execution.shown.clear()
    execution.plan = None
    calls.unmarked_errors.clear()
    calls.messages[:] = [NOTE]
    calls.reports[:] = [
        replace(it, arguments={}, result="", error=None if it.error is None else WITHHELD) for it in calls.reports
    ]
    if (direct := execution.direct_call) is not None:
        direct.result = {}
        if execution.outcome.error is None:
            execution.outcome = replace(execution.outcome, error=ProgramError("ResultWithheld", NOTE))
    enumerations = {text for tool in calls.called_tools.values() for text in _enumerated(tool.definition.output_schema)}
    execution.outcome = _without_text(execution.outcome, enumerations, _written_keys(execution.code))


def _without_text(outcome: Outcome, enumerations: Set[str], keys: Set[str]) -> Outcome:
    error = outcome.error
    if error is not None:
        known = error.type if isinstance(getattr(builtins, error.type, None), type) or error.setting else "ToolError"
        known = error.type if error.message == NOTE else known
        error = ProgramError(known, NOTE, line=error.line, setting=error.setting)
    value = _cleared(outcome.value, enumerations, keys, 0) if outcome.value_form != "repr" else WITHHELD
    return replace(outcome, value=value, hint="", error=error, stdout="", stderr="")


def _cleared(value: Any, enumerations: Set[str], keys: Set[str], depth: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MAX_INTEGER else WITHHELD
    if isinstance(value, list) and depth < _MAX_DEPTH:
        return [_cleared(item, enumerations, keys, depth + 1) for item in value]
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        shown = {
            key: _cleared(item, enumerations, keys, depth + 1)
            for key, item in value.items()
            if key in keys or key in enumerations
        }
        left_out = len(value) - len(shown)
        return {**shown, "…": left_out} if left_out else shown
    return value if isinstance(value, str) and value in enumerations else WITHHELD


def _written_keys(code: str) -> frozenset[str]:
    """The texts that a program writes out and that can be names of fields."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(it for it in texts if len(it) >= _MIN_KEY_CHARACTERS and is_field_name(it))


def _enumerated(schema: Any) -> Iterator[str]:
    """The texts of the enumerations in a JSON Schema."""
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            listed = item.get("enum")
            for text in (*(listed if isinstance(listed, list) else ()), item.get("const")):
                if isinstance(text, str):
                    yield text
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
