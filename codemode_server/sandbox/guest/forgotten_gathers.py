"""Awaits `asyncio.gather(…)` in a program that awaits nothing; pure, for the guest and the host's static check.

In plain code a call of a tool gives its value, which `gather` refuses, and gathered coroutines never end. So at top
level `await` before it is all that can be meant: it makes the program async code, and its calls awaitable. Nothing is
changed where the program may handle that failure, or has an event loop of its own.
"""

from __future__ import annotations

import ast

from .await_rule import awaits

_GATHER = frozenset(["asyncio.gather", "gather"])
_AROUND = frozenset(["asyncio.run", "asyncio.wait_for", "asyncio.shield"])
_LOOPS = ("run_until_complete", "run_forever", "Runner", "get_event_loop", "new_event_loop", "set_event_loop")
_NOT_ENTERED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.With),
    *(ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp),
)
"""Nodes whose parts may run later, more than once, or under a handler."""


def await_gathers(tree: ast.Module) -> None:
    """Put `await` before each `asyncio.gather(…)` of a top-level statement, or before what it is an argument of; in
    place of an `asyncio.run` around it."""
    if awaits(tree.body):
        return
    nodes = list(ast.walk(tree))
    names = {alias.asname or alias.name for node in nodes if _is_from_asyncio(node) for alias in node.names}  # type: ignore[attr-defined]
    if "gather" not in names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}:
        return
    if any(getattr(node, "attr", getattr(node, "id", "")) in _LOOPS for node in nodes):
        return
    gathers = _GATHER if "gather" in names else _GATHER - {"gather"}
    waiting: list[ast.AST] = [tree]
    while waiting:
        parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, _NOT_ENTERED):
                continue
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called in gathers | _AROUND:
                inner: ast.expr = node
                while isinstance(inner, ast.Call) and ast.unparse(inner.func) in _AROUND and inner.args:
                    inner = inner.args[0]
                if isinstance(inner, ast.Call) and ast.unparse(inner.func) in gathers:
                    awaited = node.args[0] if called == "asyncio.run" else node
                    replace_node(parent, node, ast.copy_location(ast.Await(awaited), node))
            elif not called.startswith("asyncio."):
                waiting.append(node)


def _is_from_asyncio(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "asyncio"


def replace_node(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put `new` where `old` is."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
