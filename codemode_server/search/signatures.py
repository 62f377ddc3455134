"""A tool's signature as short as it can be without a loss to who calls it: for results, of which there are many.

What is required stays, with its type; of what is optional, as much as there is room for, and nothing that most tools
of the server have.
"""

from __future__ import annotations

from codemode_server.catalog.catalog import Tool

_REQUIRED_CHARACTERS = 600
"""However many parameters are required."""
_LONG = 70
"""Of one parameter, or of the result, with its type."""


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
