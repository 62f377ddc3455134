"""A starting program for a task: the import lines of the tools that were found for it, and a call of each.

Its arguments are placeholders that the tools' schemas allow, so the program passes the check of programs as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import Parameter, branches_of
from codemode_server.catalog.untrusted import one_line

MAX_TOOLS = 3
_MAX_TASK_CHARACTERS = 120
_MAX_SUMMARY_CHARACTERS = 100
_MAX_ENUM_CHARACTERS = 40
_PLAIN_KEYS = frozenset({"type", "description", "title", "default", "examples", "enum", "additionalProperties"})
"""Keys of a schema under which a placeholder of its type is certainly valid."""
_PLACEHOLDERS = {"string": '"…"', "integer": "1", "number": "1.5", "boolean": "True", "object": "{}", "array": "[]"}
_FILL_IN = "fill_in"


def scaffold(task: str, tools: Sequence[Tool]) -> str:
    """The program; empty without tools."""
    chosen = tools[:MAX_TOOLS]
    if not chosen:
        return ""
    plain = [tool.name for tool in chosen]
    arguments = [_arguments(tool) for tool in chosen]
    imports = []
    calls = []
    for number, (tool, given) in enumerate(zip(chosen, arguments, strict=True), start=1):
        is_unique = plain.count(tool.name) == 1
        name = tool.name if is_unique else f"{tool.server}_{tool.name}"
        imports.append(tool.import_line if is_unique else f"{tool.import_line} as {name}")
        summary = one_line(tool.summary, _MAX_SUMMARY_CHARACTERS)
        calls += ["", f"# {tool.path}: {summary}".rstrip(": "), f"result_{number} = {name}({given})"]
        calls.append(f"print(result_{number})")
    if any(_FILL_IN in given for given in arguments):
        note = "replace by a value of the type in the signature, which read_tool shows"
        imports += ["import json", f'{_FILL_IN} = json.loads("null")  # {note}']
    head = f"# Task: {one_line(task, _MAX_TASK_CHARACTERS)}" if task else "# A starting program"
    return "\n".join([head, "# Replace the placeholders, and keep the calls that the task needs.", *imports, *calls])


def _arguments(tool: Tool) -> str:
    schema = tool.definition.input_schema
    if isinstance(schema, dict) and (branches_of(schema) or {"allOf", "if", "not"} & schema.keys()):
        return _FILL_IN  # what must be given together is not known
    return ", ".join(f"{one.name}={_placeholder(one)}" for one in tool.parameters if one.is_required)


def _placeholder(parameter: Parameter) -> str:
    schema: dict[str, Any] = parameter.schema if isinstance(parameter.schema, dict) else {}
    if not schema.keys() <= _PLAIN_KEYS:
        return _FILL_IN
    allowed = schema.get("enum")
    if isinstance(allowed, list):
        first = allowed[0] if allowed else None
        fits = isinstance(first, str) and first.isascii() and first.isprintable() and len(first) < _MAX_ENUM_CHARACTERS
        return json.dumps(first) if fits else _FILL_IN
    return _PLACEHOLDERS.get(str(schema.get("type")), _FILL_IN)
