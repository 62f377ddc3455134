"""Determines whether a statement always runs and its exception cannot be caught.

The rule is conservative. A place is not certain under a `try`, a branch, a loop, a context manager that may suppress
exceptions, a lambda or a comprehension, after a statement that may leave its block, and in a function unless a place
that is certain calls it.
"""

from __future__ import annotations

import ast
from functools import cached_property

from codemode_server.executions.preflight.reading import EXITS, Reading, asks_for_main, bound_by, last_name

_NEVER_SUPPRESSING = frozenset(
    {"open", "ThreadPoolExecutor", "TaskGroup", "timeout", "Semaphore", "TemporaryDirectory"}
)
_UNCERTAIN = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
    *(ast.IfExp, ast.BoolOp, ast.ClassDef, ast.Try, ast.match_case),
)
_HEADS = {ast.For: "iter", ast.AsyncFor: "iter", ast.While: "test", ast.If: "test", ast.Match: "subject"}
"""The part of each statement that is evaluated in any case."""
_DYNAMIC = frozenset({"exec", "eval", "globals"})
_MAX_CALLS = 20
"""Functions that are followed, one within the other, to the program's top level."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Certainty:
    """The rule for one program."""

    def __init__(self, reading: Reading, *, is_module: bool = False) -> None:
        """`is_module`: the functions of the text count as called."""
        self._reading = reading
        self._ends = {reading.tree, *(reading.tree.body if is_module else ())}
        self._leaving: dict[int, int] = {}
        self._functions: dict[ast.AST, list[ast.Call]] = {}

    def is_certain(self, node: ast.AST) -> bool:
        """True if an exception at this node ends every run of the program that reaches it."""
        places: list[ast.AST] = [node]
        followed: set[ast.AST] = set()
        for _ in range(_MAX_CALLS + 1):
            bodies = {body for place in places if (body := self._always_run_by(place)) is not None}
            if not self._ends.isdisjoint(bodies):
                return True
            places = [call for function in bodies - followed for call in self._calls_of(function)]
            followed |= bodies
        return False

    def is_handled(self, node: ast.AST) -> bool:
        """True if a handler, a context that may suppress exceptions or a branch that never runs is around the node."""
        return any(
            (_is_try(parent) and child in parent.body)  # type: ignore[attr-defined]
            or (
                isinstance(parent, ast.If)
                and (isinstance(it := parent.test, ast.Constant) or "TYPE_CH" in ast.dump(it))
            )
            or (isinstance(parent, (ast.With, ast.AsyncWith)) and _may_suppress(parent))
            for parent, child in self._reading.above(node)
        )

    def _always_run_by(self, node: ast.AST) -> ast.AST | None:
        """The function or module whose body certainly runs this node."""
        for parent, child in self._reading.above(node):
            if isinstance(parent, ast.Module | _Function):
                is_in_body = child in parent.body and not self._may_be_skipped(parent.body, child)
                return parent if is_in_body else None
            if isinstance(parent, _UNCERTAIN) or _is_try(parent):
                return None
            if isinstance(parent, ast.Call) and _collects_exceptions(parent):
                return None
            if isinstance(parent, (ast.With, ast.AsyncWith)) and child in parent.body:
                if _may_suppress(parent) or self._may_be_skipped(parent.body, child):
                    return None
            elif isinstance(parent, ast.If) and child in parent.body and asks_for_main(parent.test):
                if self._may_be_skipped(parent.body, child):
                    return None
            elif type(parent) in _HEADS and child is not getattr(parent, _HEADS[type(parent)]):
                return None
        return None

    def _may_be_skipped(self, block: list[ast.stmt], child: ast.AST) -> bool:
        """True if a statement before this one may leave the block."""
        if id(block) not in self._leaving:
            leaving = (number for number, statement in enumerate(block) if _may_leave(statement))
            self._leaving[id(block)] = next(leaving, len(block))
        return block.index(child) > self._leaving[id(block)]  # type: ignore[arg-type]

    def _calls_of(self, function: ast.AST) -> list[ast.Call]:
        """The calls that run the body of a function."""
        if not isinstance(function, _Function):
            return []
        if function not in self._functions:
            self._functions[function] = self._find_calls(function)
        return self._functions[function]

    def _find_calls(self, function: _Function) -> list[ast.Call]:
        is_generator = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(function.body))
        if function.decorator_list or is_generator or self._bindings.get(function.name) != 1:
            return []
        calls = [node for node in self._reading.nodes if isinstance(node, ast.Call)]
        calls = [it for it in calls if isinstance(it.func, ast.Name) and it.func.id == function.name]
        return [it for it in calls if isinstance(function, ast.FunctionDef) or self._is_awaited(it)]

    def _is_awaited(self, call: ast.Call) -> bool:
        """True if a coroutine is awaited at its place; the program's last expression is awaited in any case."""
        parent = self._reading.parents.get(call)
        if isinstance(parent, ast.Call):
            return last_name(parent.func) in ("run", "run_until_complete")
        return isinstance(parent, ast.Await) or parent is self._reading.last

    @cached_property
    def _bindings(self) -> dict[str, int]:
        """How often the program binds each name; nothing where it may bind names that its text does not show."""
        found: dict[str, int] = {}
        for node in self._reading.nodes:
            if (isinstance(node, ast.Name) and node.id in _DYNAMIC) or (
                isinstance(node, ast.alias) and node.name == "*" and self._brings_others(node)
            ):
                return {}
            for name in bound_by(node):
                found[name] = found.get(name, 0) + 1
        return found

    def _brings_others(self, star: ast.alias) -> bool:
        parent = self._reading.parents[star]
        return isinstance(parent, ast.ImportFrom) and not (parent.module or "").startswith(("servers.", "codemode"))


def own_nodes(statements: list[ast.stmt]) -> list[ast.AST]:
    """The statements and all in them, without the insides of functions and classes."""
    waiting: list[ast.AST] = [*statements]
    nodes = []
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return nodes


def _may_leave(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue)
        or (isinstance(node, ast.Call) and last_name(node.func) in EXITS)
        for node in own_nodes([statement])
    )


def _may_suppress(context: ast.With | ast.AsyncWith) -> bool:
    names = (last_name(it.func) if isinstance(it, ast.Call) else "" for it in (it.context_expr for it in context.items))
    return not all(name in _NEVER_SUPPRESSING for name in names)


def _is_never(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) or last_name(test) == "TYPE_CHECKING"


def _collects_exceptions(call: ast.Call) -> bool:
    return last_name(call.func) == "gather" and any(it.arg in (None, "return_exceptions") for it in call.keywords)


def _is_try(node: ast.AST) -> bool:
    return isinstance(node, ast.Try) or type(node).__name__ == "TryStar"  # newer than our oldest Python
