"""Facts from a skill's text alone: its function, its description, and the tools that it imports or calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from codemode_server.executions.preflight.reading import MAX_CHARACTERS, Reading, last_name, read
from codemode_server.text import clean_line

MAX_SUMMARY_CHARACTERS = 120
MAX_TOOLS = 20
BY_NAME = "tools by names known only at run time"
_SIGNATURE_CHARACTERS = 240
_CALLERS = ("call", "call_mcp_tool")
_DYNAMIC = (*_CALLERS, "import_module", "__import__", "eval", "exec")
"""Functions that reach tools by a text."""
_MODULES = ("servers", "codemode", "client")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class SkillSource:
    """The facts of one text; all of it is untrusted, cleaned and bounded."""

    summary: str
    function: str = ""
    signature: str = ""
    tools: tuple[str, ...] = ()


def facts_of(name: str, text: str) -> SkillSource:
    """The facts of the skill of this name."""
    if len(text) > MAX_CHARACTERS:
        return SkillSource("(too long to be read here)")
    if (reading := read(text)) is None:
        return SkillSource("(not valid Python)")
    try:
        return _facts(name, reading)
    except RecursionError:
        return SkillSource("(nested too deep)", tools=tools_of(reading))


def _facts(name: str, reading: Reading) -> SkillSource:
    functions = {function.name: function for function in _functions(reading.tree)}
    function = functions.get(name) or next(iter(functions.values()), None)
    docstring = ast.get_docstring(reading.tree) or (ast.get_docstring(function) if function else None) or ""
    summary = clean_line(docstring.partition("\n")[0], MAX_SUMMARY_CHARACTERS)
    signature = _signature(function) if function else ""
    return SkillSource(summary, function.name if function else "", signature, tools_of(reading))


def tools_of(reading: Reading) -> tuple[str, ...]:
    """The tools that a text imports or calls by name, as `server.tool`, and the skills that it imports, sorted; before
    them `BY_NAME` if it may call others."""
    found = sorted({tool for node in reading.nodes for tool in _named(node)})
    if any(_is_by_name(node, reading.parents.get(node)) for node in reading.nodes):
        found.insert(0, BY_NAME)
    more = len(found) - MAX_TOOLS
    return (*found[:MAX_TOOLS], *([f"and {more} more"] if more > 0 else []))


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            paths = [module] if module.count(".") >= 2 else [f"{module}.{alias.name}" for alias in aliases]
        case ast.Import(names=aliases):
            paths = [alias.name for alias in aliases]
        case ast.Call(func=func, args=[ast.Constant(value=str(server)), ast.Constant(value=str(tool)), *_]) if (
            last_name(func) == "call"
        ):
            paths = [f"servers.{server}.{tool}"]
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if last_name(func) == "call_mcp_tool":
            paths = [f"servers.{name.removeprefix('mcp__').replace('__', '.', 1)}"]
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="servers"), attr=server), attr=tool):
            paths = [f"servers.{server}.{tool}"]
        case _:
            return
    for path in paths:
        root, _, rest = path.partition(".")
        if root == "servers" and rest:
            yield clean_line(rest, 120)
        elif root == "skills" and rest:
            yield clean_line(f"skills.{rest.partition('.')[0]}", 120)


def _is_by_name(node: ast.AST, parent: ast.AST | None) -> bool:
    """True if a tool may be called here that `_named` does not find."""
    match node:
        case ast.ImportFrom(module=str(module), level=0, names=aliases) if module.partition(".")[0] in _MODULES:
            return any(alias.name == "*" or (alias.name in _CALLERS and alias.asname) for alias in aliases)
        case ast.Import(names=aliases):
            return any(alias.name in _MODULES and alias.asname for alias in aliases)
        case ast.Name(id="servers" | "codemode") | ast.Attribute(value=ast.Name(id="servers")):
            return not isinstance(parent, ast.Attribute)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if last_name(node) in _DYNAMIC:
            return not (isinstance(parent, ast.Call) and parent.func is node and any(_named(parent)))
    return False


def _functions(module: ast.Module) -> Iterator[_Function]:
    """The public functions at top level."""
    for statement in module.body:
        if isinstance(statement, _Function) and not statement.name.startswith("_"):
            yield statement


def _signature(function: _Function) -> str:
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return clean_line(f"{function.name}({ast.unparse(function.args)}){returned}", _SIGNATURE_CHARACTERS)
