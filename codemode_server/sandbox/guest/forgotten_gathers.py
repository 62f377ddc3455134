"""Awaits `asyncio.gather(…)` in a program that awaits nothing; pure, for the guest and the host's static check.

In plain code a call of a tool gives its value, which `gather` refuses, and gathered coroutines never end. So at top
level `await` before it is all that can be meant: it makes the program async code, and its calls awaitable.
Nothing is changed where the program may handle that failure, or has an event loop of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .await_rule import CONSUMERS, awaits

_AWAITABLE = frozenset(["gather", "wait_for", "shield"])
"""Consumers that may be around a `gather` and are awaited themselves."""
_LOOPS = frozenset(
    ["run_until_complete", "run_forever", "Runner", "get_event_loop", "new_event_loop", "set_event_loop"]
)
_NOT_ENTERED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.With),
    *(ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp),
    *([ast.TryStar] if hasattr(ast, "TryStar") else []),
)
"""Nodes whose parts may run later, more than once, or under a handler."""


def await_gathers(tree: ast.Module) -> None:
    """Put `await` before each `asyncio.gather(…)` of a top-level statement, or before what it is an argument of; in
    place of an `asyncio.run` around it."""
    if awaits(tree.body):
        return
    nodes = list(ast.walk(tree))
    names = _AsyncioNames(nodes)
    if names.are_in_use(nodes):
        for parent, call, awaited in list(_forgotten(tree, names)):
            replace_node(parent, call, ast.copy_location(ast.Await(awaited), call))


class _AsyncioNames:
    """Names that are asyncio or its functions wherever they are bound."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        bound: dict[str, set[str]] = {}
        for node in nodes:
            for name, meaning in _bindings(node):
                bound.setdefault(name, set()).add(meaning)
        self._meanings = {name: meanings.pop() for name, meanings in bound.items() if len(meanings) == 1}

    def are_in_use(self, nodes: Sequence[ast.AST]) -> bool:
        """Whether the program gathers and leaves the event loop alone."""
        used = {_last_name(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))}
        return not used & _LOOPS and any(self.function(node) == "gather" for node in nodes)

    def function(self, node: ast.AST) -> str:
        """The function of asyncio that a call calls; empty for any other node."""
        if not isinstance(node, ast.Call):
            return ""
        match node.func:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if self._meanings.get(module) == "asyncio":
                return name
            case ast.Name(id=name):
                module, _, function = self._meanings.get(name, "").partition(".")
                return function if module == "asyncio" else ""
        return ""


def _forgotten(tree: ast.Module, names: _AsyncioNames) -> Iterator[tuple[ast.AST, ast.Call, ast.expr]]:
    """The calls to replace, each with its parent, and the call to await in its place."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, _NOT_ENTERED):
                continue
            name = names.function(node)
            if isinstance(node, ast.Call) and name in (*CONSUMERS, *_AWAITABLE):
                inner = node.args[0] if name == "run" and len(node.args) == 1 and not node.keywords else node
                is_awaitable = isinstance(inner, ast.Call) and names.function(inner) in _AWAITABLE
                if is_awaitable and any(names.function(part) == "gather" for part in ast.walk(inner)):
                    yield parent, node, inner
                continue
            waiting.append(node)


def _bindings(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that a node binds, each with what it is: `asyncio`, `asyncio.gather`, or empty for anything else."""
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                is_asyncio = alias.name == "asyncio"
                yield alias.asname or alias.name.partition(".")[0], "asyncio" if is_asyncio else ""
        case ast.ImportFrom(module=module, names=aliases):
            for alias in aliases:
                is_asyncio = module == "asyncio" and not node.level
                yield alias.asname or alias.name, f"asyncio.{alias.name}" if is_asyncio else ""
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name, ""
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, ""
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, ""
        case ast.MatchMapping(rest=str(name)):
            yield name, ""


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def replace_node(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put `new` where `old` is."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
