"""Whether a statement always runs: no earlier exit in its block and no condition around it."""

from __future__ import annotations

import ast
from typing import Any

from codemode_server.execution.preflight.reading import Function, Reading, asks_for_main, bound_by, last_name

_EXITS = ("exit", "quit", "_exit")
_BINDERS = frozenset({"exec", "eval", "globals"})
"""What may bind any name."""
_MAX_CALLS = 20
"""Functions that are followed from the statement to the program's top level."""


def runs_for_certain(reading: Reading, statement: ast.AST, calls: int = 0) -> bool:
    """Whether a statement runs in every run of the program that no exception ends before."""
    for parent, child in reading.above(statement):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return _is_reached_in_block(parent, child) and calls < _MAX_CALLS and _is_called(reading, parent, calls)
        if isinstance(parent, ast.Module):
            return _is_reached_in_block(parent, child)
        if isinstance(parent, ast.With | ast.AsyncWith):
            if not _is_reached_in_block(parent, child):
                return False
        elif isinstance(parent, ast.If):
            if not asks_for_main(parent.test) or not _is_reached_in_block(parent, child):
                return False
        elif isinstance(parent, ast.Try):
            if child not in parent.body or not _is_reached_in_block(parent, child):
                return False
        elif not isinstance(
            parent, ast.Expr | ast.Assign | ast.Await | ast.Call | ast.Return | ast.AnnAssign | ast.keyword
        ):
            return False
    return False


def _is_called(reading: Reading, function: ast.FunctionDef | ast.AsyncFunctionDef, calls: int) -> bool:
    """Whether a call of the function, `main()` or `asyncio.run(main())`, runs its body for certain."""
    if function.decorator_list or _is_generator(function) or not _is_bound_once(reading, function):
        return False
    found = [
        node
        for node in reading.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name
    ]
    is_async = isinstance(function, ast.AsyncFunctionDef)
    return any(
        (not is_async or _is_run(reading, call)) and runs_for_certain(reading, call, calls + 1) for call in found
    )


def _is_bound_once(reading: Reading, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its name means this function wherever the program uses it."""
    bindings = 0
    for node in reading.nodes:
        if isinstance(node, ast.Name) and node.id in _BINDERS:
            return False
        if isinstance(node, ast.alias) and node.name == "*":
            bindings += node.lineno > function.lineno  # a star may bring any name
        else:
            bindings += function.name in bound_by(node)
    return bindings == 1


def _is_generator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a call only makes an iterator."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Function | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False


def _is_run(reading: Reading, call: ast.Call) -> bool:
    """Whether a coroutine is awaited or run there; the program's last expression is awaited automatically."""
    parent = reading.parents.get(call)
    if isinstance(parent, ast.Call):
        return last_name(parent.func) in ("run", "run_until_complete")
    return isinstance(parent, ast.Await) or parent is reading.last


def _is_reached_in_block(parent: Any, child: ast.AST) -> bool:
    """Whether no statement before it in its block may leave the block."""
    body = parent.body
    return child in body and not any(map(_may_leave, body[: body.index(child)]))


def _may_leave(statement: ast.AST) -> bool:
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.Call) and last_name(node.func) in _EXITS:
            return True
        if not isinstance(node, Function | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False
