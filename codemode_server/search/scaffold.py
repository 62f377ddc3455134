"""A starting program for a task: the import lines of the tools that were found for it, and a call of each.

Its arguments are placeholders that the tools' schemas allow, so the program passes the check of programs as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import branches_of
from codemode_server.catalog.parameters import Parameter
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
    names = _names(chosen)
    calls = [_call(tool, name, number) for number, (tool, name) in enumerate(zip(chosen, names, strict=True), start=1)]
    lines = [f"# Task: {one_line(task, _MAX_TASK_CHARACTERS)}" if task else "# A starting program"]
    lines.append("# Replace the placeholders, and keep the calls that the task needs.")
    lines += [_import(tool, name) for tool, name in zip(chosen, names, strict=True)]
    if any(_FILL_IN in line for call in calls for line in call):
        note = "replace by a value of the type in the signature, which read_tool shows"
        lines += ["import json", f'{_FILL_IN} = json.loads("null")  # {note}']
    for tool, call in zip(chosen, calls, strict=True):
        lines += ["", f"# {tool.path}: {one_line(tool.summary, _MAX_SUMMARY_CHARACTERS)}".rstrip(": "), *call]
    return "\n".join(lines)


def _names(tools: Sequence[Tool]) -> list[str]:
    """Names of the tools in the program: equal names of two servers need two."""
    plain = [tool.name for tool in tools]
    return [tool.name if plain.count(tool.name) == 1 else f"{tool.server}_{tool.name}" for tool in tools]


def _import(tool: Tool, name: str) -> str:
    return tool.import_line if name == tool.name else f"{tool.import_line} as {name}"


def _call(tool: Tool, name: str, number: int) -> list[str]:
    required = [parameter for parameter in tool.parameters if parameter.is_required]
    schema = tool.definition.input_schema
    if isinstance(schema, dict) and (branches_of(schema) or {"allOf", "if", "not"} & schema.keys()):
        arguments = _FILL_IN  # what must be given together is not known
    else:
        arguments = ", ".join(f"{parameter.name}={_placeholder(parameter)}" for parameter in required)
    return [f"result_{number} = {name}({arguments})", f"print(result_{number})"]


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
