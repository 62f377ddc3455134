"""Uses of `codemode.checkpoint` in a program's text that can't work: another attribute, wrong arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from codemode_server.executions.preflight.reading import Reading

_PARAMETERS = {"save": ("step", "context"), "load": ()}
_USAGE = "checkpoint.save(step=..., context=...) and checkpoint.load()"


def checkpoint_problems(reading: Reading) -> Iterator[tuple[ast.AST, str, str]]:
    """Each as a node, a message and the name of the exception."""
    name = _imported_name(reading)
    if not name or any(_gives_another_meaning(node, name) for node in reading.nodes):
        return
    for node in reading.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name:
                if attribute not in _PARAMETERS and not attribute.startswith("__"):
                    yield node, f"checkpoint has no {attribute!r}; it has {_USAGE}", "AttributeError"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attribute)) if owner == name:
                if attribute in _PARAMETERS and (problem := _argument_problem(node, attribute)):
                    yield node, f"checkpoint.{attribute}(): {problem}; it is used as {_USAGE}", "TypeError"
            case _:
                pass


def _imported_name(reading: Reading) -> str:
    """The one name under which it is imported; empty if there is none, or several."""
    names = {
        alias.asname or alias.name
        for node in reading.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "codemode" and not node.level
        for alias in node.names
        if alias.name == "checkpoint"
    }
    return names.pop() if len(names) == 1 else ""


def _gives_another_meaning(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=other, ctx=ast.Store() | ast.Del()) | ast.arg(arg=other):
            return other == name
        case ast.FunctionDef(name=other) | ast.AsyncFunctionDef(name=other) | ast.ClassDef(name=other):
            return other == name
        case ast.ExceptHandler(name=other) | ast.MatchAs(name=other) | ast.MatchStar(name=other):
            return other == name
        case ast.MatchMapping(rest=other):
            return other == name
        case ast.ImportFrom(module=module, names=names) if module != "codemode":
            return any(alias.asname == name or alias.name in (name, "*") for alias in names)
        case ast.Import(names=names):
            return any((alias.asname or alias.name.partition(".")[0]) == name for alias in names)
        case _:
            return False


def _argument_problem(call: ast.Call, method: str) -> str:
    if any(isinstance(it, ast.Starred) for it in call.args) or any(it.arg is None for it in call.keywords):
        return ""
    parameters = _PARAMETERS[method]
    given = [*parameters[: len(call.args)], *(it.arg for it in call.keywords if it.arg)]
    if len(call.args) > len(parameters):
        return "too many arguments"
    if unknown := [name for name in given if name not in parameters]:
        return f"there is no argument {unknown[0]!r}"
    if len(set(given)) < len(given):
        return "an argument is given twice"
    return "'step' is missing" if method == "save" and "step" not in given else ""
