"""Whether a statement always runs: no earlier exit in its block and no condition around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from codemode_server.executions.preflight.reading import EXITS, Function, Reading, asks_for_main, bound_by, last_name

_BINDERS = frozenset({"exec", "eval", "globals"})
"""Calls that may bind any name."""
_MAX_CALLS = 20
"""Functions that are followed, one within the other, from the statement to the program's top level."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BODIES = ast.Module | _Function
_BLOCKS = _BODIES | ast.If | ast.With | ast.AsyncWith | ast.Try
_PARTS = ast.Expr | ast.Assign | ast.Await | ast.Call | ast.Return | ast.AnnAssign | ast.keyword


def runs_for_certain(reading: Reading, statement: ast.AST) -> bool:
    """Whether a statement runs in every run of the program that no exception ends before."""
    places: list[ast.AST] = [statement]
    followed: set[ast.AST] = set()
    for _ in range(_MAX_CALLS + 1):
        bodies = {body for place in places if (body := _always_run_by(reading, place)) is not None}
        if reading.tree in bodies:
            return True
        # Each function is followed once: one that calls itself twice would otherwise double the work at every step.
        places = [call for function in bodies - followed for call in _calls_that_run(reading, function)]
        followed |= bodies
    return False


def _always_run_by(reading: Reading, node: ast.AST) -> ast.AST | None:
    """The function or module whose body surely runs this node; None if a condition or exit is between."""
    for parent, child in reading.above(node):
        if isinstance(parent, _PARTS):
            continue
        if not isinstance(parent, _BLOCKS) or not _is_reached_in_block(parent, child):
            return None
        if isinstance(parent, _BODIES):
            return parent
        if isinstance(parent, ast.If) and not asks_for_main(parent.test):
            return None
    return None


def _calls_that_run(reading: Reading, function: Any) -> list[ast.AST]:
    """Calls of the function, `main()` or `asyncio.run(main())`, that run its body for certain."""
    if function.decorator_list or _is_generator(function) or not _is_bound_once(reading, function):
        return []
    is_async = isinstance(function, ast.AsyncFunctionDef)
    return [
        node
        for node in reading.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function.name
        and (not is_async or _is_run(reading, node))
    ]


def _is_bound_once(reading: Reading, function: _Function) -> bool:
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


def _is_generator(function: _Function) -> bool:
    """Whether a call only makes an iterator."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function.body))


def _is_run(reading: Reading, call: ast.Call) -> bool:
    """Whether a coroutine is awaited or run there; the program's last expression is awaited automatically."""
    parent = reading.parents.get(call)
    if isinstance(parent, ast.Call):
        return last_name(parent.func) in ("run", "run_until_complete")
    return isinstance(parent, ast.Await) or parent is reading.last


def _is_reached_in_block(parent: Any, child: ast.AST) -> bool:
    """Whether no statement before it in its block may leave the block."""
    body = parent.body
    return child in body and not any(map(_may_leave, _own_nodes(body[: body.index(child)])))


def _may_leave(node: ast.AST) -> bool:
    is_exit = isinstance(node, ast.Call) and last_name(node.func) in EXITS
    return is_exit or isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue)


def _own_nodes(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements and all in them, without what is inside of functions and classes."""
    waiting = [*statements]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
