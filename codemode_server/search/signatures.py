"""A tool's signature as short as it can be without a loss to who calls it: for results, of which there are many.

What is required stays, with its type; of what is optional, as much as there is room for, and nothing that most tools
of the server have.
"""

from __future__ import annotations

import re

from codemode_server.catalog.catalog import Tool

_REQUIRED_CHARACTERS = 600
"""However many parameters are required."""
_LONG = 70
"""Of one parameter, or of the result, with its type."""
_FIELDS_CHARACTERS = 100


def brief_signature(tool: Tool, usual: frozenset[str], characters: int) -> str:
    """For instance `list_issues(repo: str, state: str = ..., …) -> list[Issue]`. `usual` are raw names."""
    stub = tool.stub
    returned = f" -> {stub.returned.type}"
    if returned == " -> Any" or len(returned) > _LONG:
        returned = ""
    if not tool.parameters:
        return f"{tool.name}({''.join(stub.declarations)}){returned}"
    shown: list[str] = []
    room = characters - len(tool.name) - len(returned)
    for parameter, declaration in zip(tool.parameters, stub.declarations, strict=True):
        short = declaration if len(declaration) <= _LONG else parameter.name + ("" if parameter.is_required else "=...")
        if not parameter.is_required and (len(short) > room or parameter.raw_name in usual):
            continue
        if sum(map(len, shown)) > _REQUIRED_CHARACTERS:
            break
        shown.append(short)
        room -= len(short) + 2
    if len(shown) < len(tool.parameters):
        shown.append("…")
    return f"{tool.name}({', '.join(shown)}){returned}"


def result_fields(tool: Tool) -> str:
    """What is in the dicts that the result is made of: `keys: number, title`, or with the name of each of several;
    empty where nothing is known."""
    returned = tool.stub.returned.type
    named = returned.classes if len(str(returned)) < _LONG else frozenset()
    found = {name: _FIELD.findall(body) for name, body in _CLASS.findall(tool.stub.source) if name in named}
    told = {name: _within(fields) for name, fields in sorted(found.items()) if fields}
    return "; ".join(f"{name if len(told) > 1 else 'keys'}: {fields}" for name, fields in told.items())


def _within(fields: list[str]) -> str:
    shown: list[str] = []
    room = _FIELDS_CHARACTERS
    for field in fields:
        room -= len(field) + 2
        if room < 0:
            return ", ".join([*shown, "…"])
        shown.append(field)
    return ", ".join(shown)


_CLASS = re.compile(
    r"^(?:class )?(\w+)(?:\(TypedDict[^\n]*\):| = TypedDict\([^\n]*\{)\n((?: {4}[^\n]*\n)+)", re.MULTILINE
)
_FIELD = re.compile(r"^ {4}\"?([^\n:\"]{1,60})\"?: ", re.MULTILINE)
"""In a class as stubs are written; what stands deeper is not of it."""
