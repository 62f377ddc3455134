"""Determines whether a statement always runs and its exception cannot be caught.

The rule is conservative. A place is not certain under a `try`, a branch, a loop, a context manager that may suppress
exceptions, a lambda or a comprehension, after a statement that may leave its block, and in a function unless a place
that is certain calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from codemode_server.executions.preflight.reading import EXITS, Reading, asks_for_main, bound_by, last_name

_NEVER_SUPPRESSING = frozenset(
    {"open", "ThreadPoolExecutor", "TaskGroup", "timeout", "Semaphore", "TemporaryDirectory"}
)
_NEVER_ENTERED = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
_HEADS: dict[type[ast.AST], str] = {
    ast.For: "iter",
    ast.AsyncFor: "iter",
    ast.While: "test",
    ast.If: "test",
    ast.Match: "subject",
}
"""The part of each statement that is evaluated in any case."""
_DYNAMIC = frozenset({"exec", "eval", "globals"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Certainty:
    """The rule for one program."""

    def __init__(self, reading: Reading, *, is_module: bool = False) -> None:
        """`is_module`: the functions of the text count as called."""
        self._reading = reading
        self._is_module = is_module

    def is_certain(self, node: ast.AST) -> bool:
        """True if an exception at this node ends every run of the program."""
        return node in self._certain

    def is_handled(self, node: ast.AST) -> bool:
        """True if a handler, a context that may suppress exceptions or a branch that never runs is around the node."""
        return any(
            (_is_try(parent) and child in parent.body)  # type: ignore[attr-defined]
            or (isinstance(parent, ast.If) and _is_never(parent.test))
            or (isinstance(parent, (ast.With, ast.AsyncWith)) and _may_suppress(parent))
            for parent, child in self._reading.above(node)
        )

    @cached_property
    def _certain(self) -> set[ast.AST]:
        body = self._reading.tree.body
        blocks = [body, *(it.body for it in body if self._is_module and isinstance(it, _Function))]
        functions = self._functions
        certain: set[ast.AST] = set()
        while blocks:
            for node in _always_run(blocks.pop()):
                certain.add(node)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                    function = functions[node.func.id]
                    if isinstance(function, ast.FunctionDef) or self._is_awaited(node):
                        blocks.append(functions.pop(node.func.id).body)
        return certain

    def _is_awaited(self, call: ast.Call) -> bool:
        """True if a coroutine is awaited at its place; the program's last expression is awaited in any case."""
        parent = self._reading.parents.get(call)
        if isinstance(parent, ast.Call):
            return last_name(parent.func) in ("run", "run_until_complete")
        return isinstance(parent, ast.Await) or parent is self._reading.last

    @property
    def _functions(self) -> dict[str, _Function]:
        """The functions whose body a call of their name runs; none where the text does not show what names mean."""
        bindings: dict[str, int] = {}
        for node in self._reading.nodes:
            if (isinstance(node, ast.Name) and node.id in _DYNAMIC) or self._brings_others(node):
                return {}
            for name in bound_by(node):
                bindings[name] = bindings.get(name, 0) + 1
        return {
            node.name: node
            for node in self._reading.nodes
            if isinstance(node, _Function) and bindings[node.name] == 1 and not node.decorator_list
            if not any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in own_nodes(node.body))
        }

    def _brings_others(self, node: ast.AST) -> bool:
        """True for an import of all names of a module that is none of ours."""
        parent = self._reading.parents.get(node) if isinstance(node, ast.alias) and node.name == "*" else None
        return isinstance(parent, ast.ImportFrom) and not (parent.module or "").startswith(("servers.", "codemode"))


def _always_run(block: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a block that run whenever it does, up to a statement that may leave it."""
    for statement in block:
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += _always_evaluated(node)
            if (isinstance(node, (ast.With, ast.AsyncWith)) and not _may_suppress(node)) or (
                isinstance(node, ast.If) and asks_for_main(node.test)
            ):
                yield from _always_run(node.body)
        if any(_leaves(node) for node in own_nodes([statement])):
            return


def _always_evaluated(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are evaluated in any case."""
    if isinstance(node, _NEVER_ENTERED) or _is_try(node) or (isinstance(node, ast.Call) and _collects_exceptions(node)):
        return []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [*node.items]
    head = _HEADS.get(type(node))
    return [getattr(node, head)] if head is not None else [*ast.iter_child_nodes(node)]


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


def _leaves(node: ast.AST) -> bool:
    """True if this node may leave its block."""
    is_exit = isinstance(node, ast.Call) and last_name(node.func) in EXITS
    return is_exit or isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue))


def _is_never(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) or last_name(test) == "TYPE_CHECKING"


def _may_suppress(context: ast.With | ast.AsyncWith) -> bool:
    names = (last_name(it.func) if isinstance(it, ast.Call) else "" for it in (it.context_expr for it in context.items))
    return not all(name in _NEVER_SUPPRESSING for name in names)


def _collects_exceptions(call: ast.Call) -> bool:
    return last_name(call.func) == "gather" and any(it.arg in (None, "return_exceptions") for it in call.keywords)


def _is_try(node: ast.AST) -> bool:
    return isinstance(node, ast.Try) or type(node).__name__ == "TryStar"  # newer than our oldest Python
