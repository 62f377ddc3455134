"""The rule for calls of tools in synchronous and asynchronous code; pure, for the guest and the host's static check.

A call is sent at once. Plain code gets its value, and blocks until it is there. In async code (an `async def`, or a
program that awaits at top level) it depends on where the result goes:

* `await tool(…)`, `asyncio.gather(tool(…), …)`, `tasks.append(tool(…))` with `tasks` gathered later, and the like: the
  program awaits it, and gets something awaitable;
* everywhere else (`tool(…)["content"]`, `x = tool(…)` with an `x` that nobody awaits, `re.findall(pattern, tool(…))`, a
  statement of its own): the value, as if `await` stood there;
* where the text can't tell (an argument of an awaited function, an item of a dict, in a lambda or a generator
  expression, a tool under another name): something awaitable that behaves as its value when it is used.

`CallUses` applies the rule to a program's text, `is_async_frame` to a call that is running.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from types import FrameType
from typing import NamedTuple

_TOOL_MODULES = ("servers", "skills", "workflows", "client", "codemode")
CONSUMERS = frozenset(
    "gather wait wait_for as_completed shield create_task ensure_future run run_until_complete".split()  # noqa: SIM905
)
"""Functions that are given awaitables, by their last name: asyncio's, and a task group's `create_task`."""
_COLLECTORS = frozenset(["append", "add", "put", "put_nowait", "appendleft", "insert", "extend"])
_PASSING = frozenset(["zip", "enumerate", "list", "tuple", "reversed"])
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_TRANSPARENT = {"<genexpr>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Use(IntEnum):
    """What a program does with the result of a call; of several uses the highest counts."""

    EITHER = 0
    VALUE = 1
    AWAITED = 2


def is_async_frame(frame: FrameType | None) -> bool:
    """Whether the code that runs in a frame could await a call it makes."""
    while frame is not None and frame.f_code.co_name in _TRANSPARENT:
        if frame.f_code.co_flags & _ASYNC:
            return True
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _ASYNC)


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Everything in a body that belongs to its own scope, not to a function or class in it."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def awaits(body: Sequence[ast.AST]) -> bool:
    """Whether code awaits in its own scope, which makes it async."""
    return any(
        isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in own_nodes(body)
    )


class _Names:
    """Names that results are put into, and what is done with any of them."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.use = Use.EITHER
        self.sources: list[str] = []
        """Names whose results go into these."""


class _Destination(NamedTuple):
    """Where the value of an expression goes: to a use, or into names that are used elsewhere."""

    use: Use
    names: tuple[_Names, ...] = ()


class _Place(NamedTuple):
    """What is around a node."""

    scope: ast.AST | None
    """The innermost function or class; None at top level."""
    is_deferred: bool
    """Whether a lambda or a generator expression runs it later: an `await` there would change what it gives."""


class CallUses:
    """The rule for each call in a program; the time it takes is linear in the program's size."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._tools = _tool_names(self._nodes)
        self._is_async_at_top = awaits(tree.body)
        self._destinations: dict[ast.AST, _Destination] = {}
        self._names: list[_Names] = []

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}

    def is_async(self, node: ast.AST) -> bool:
        """Whether the code at a node may await; a lambda may if its caller does."""
        scope = self._scopes[node].scope
        return self._is_async_at_top if scope is None else isinstance(scope, (ast.AsyncFunctionDef, ast.Lambda))

    def use_of(self, call: ast.Call) -> Use:
        """What is done with the result of a call of a tool; where it is VALUE, the call gives the value itself."""
        if not self.is_async(call):
            return Use.VALUE
        if _root_name(call.func) not in self._tools or self._scopes[call].is_deferred:
            return Use.EITHER
        destination = self._resolved[call]
        return max([destination.use, *(names.use for names in destination.names)])

    def is_awaited_in_place(self, call: ast.Call) -> bool:
        """Whether the expression that a call is part of awaits it, alone or with others."""
        return self.use_of(call) is Use.AWAITED and not self._resolved[call].names

    def forgotten_awaits(self) -> list[ast.Call]:
        """The calls of tools in async code that need an `await` to give their value."""
        has_async = self._is_async_at_top or any(isinstance(node, ast.AsyncFunctionDef) for node in self._nodes)
        if not self._tools or not has_async:
            return []
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and _root_name(node.func) in self._tools]
        return [call for call in calls if self.is_async(call) and self.use_of(call) is Use.VALUE]

    @cached_property
    def _scopes(self) -> dict[ast.AST, _Place]:
        """By node; decorators and defaults are outside of their function."""
        found: dict[ast.AST, _Place] = {self._nodes[0]: _Place(None, is_deferred=False)}
        for parent in self._nodes:  # each before its children
            place = found[parent]
            for child in ast.iter_child_nodes(parent):
                is_body = isinstance(child, ast.stmt) or child is getattr(parent, "body", None)
                scope = parent if is_body and isinstance(parent, _SCOPES) else place.scope
                is_deferred = place.is_deferred or isinstance(parent, (ast.GeneratorExp, ast.Lambda))
                found[child] = _Place(scope, is_deferred=is_deferred and not isinstance(child, ast.stmt))
        return found

    @cached_property
    def _resolved(self) -> dict[ast.AST, _Destination]:
        """Where the result of each call goes, with the uses of all names that it may go through."""
        uses: dict[str, Use] = {}
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._destination(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self._is_receiver(node):
                destination = self._destination(node)
                uses[node.id] = max(uses.get(node.id, Use.EITHER), destination.use)
                for names in destination.names:
                    names.sources.append(node.id)
        containing: dict[str, list[_Names]] = {}
        for names in self._names:
            for name in names.names:
                containing.setdefault(name, []).append(names)
            if uses.keys().isdisjoint(names.names):
                uses[next(iter(names.names))] = Use.VALUE  # nothing is done with any of them
        for use in (Use.AWAITED, Use.VALUE):
            waiting = [name for name, found in uses.items() if found is use]
            while waiting:
                for names in containing.get(waiting.pop(), ()):
                    if names.use < use:
                        names.use = use
                        risen = {name for name in names.sources if uses[name] < use}
                        uses.update(dict.fromkeys(risen, use))
                        waiting += risen
        return self._destinations

    def _destination(self, node: ast.AST) -> _Destination:
        found = self._destinations.get(node)
        if found is None:
            found = self._destinations[node] = self._find_destination(node)
        return found

    def _find_destination(self, node: ast.AST) -> _Destination:
        parent = self.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ("values", "items") and isinstance(node, ast.Name):
            return self._passed_through(self.parents[parent])
        if parent is None or _needs_value(parent, node):
            return _Destination(Use.VALUE)
        match parent:
            case ast.Await():
                return _Destination(Use.AWAITED)
            case ast.For() | ast.comprehension() if parent.iter is node:
                return self._into([parent.target])
            case ast.Starred() | ast.List() | ast.Tuple() | ast.Set() | ast.IfExp():
                return self._destination(parent)
            case ast.keyword():
                return self._into_call(parent)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() if parent.elt is node:
                return self._destination(parent)
            case ast.DictComp() if parent.value is node:
                return self._destination(parent)
            case ast.Call() if node is not parent.func:
                return self._into_call(node)
            case ast.Assign():
                return self._into_targets(parent.targets)
            case ast.AnnAssign() | ast.AugAssign():
                return self._into_targets([parent.target])
            case ast.NamedExpr():
                into, beside = self._into([parent.target]), self._destination(parent)
                return _Destination(max(into.use, beside.use), (*into.names, *beside.names))
            case ast.Dict():
                return _Destination(Use.EITHER)
            case _:
                return _Destination(Use.VALUE)

    def _into_call(self, argument: ast.AST) -> _Destination:
        call = self.parents[argument]
        if not isinstance(call, ast.Call):  # the keyword of a class statement
            return _Destination(Use.VALUE)
        root = _root_name(call.func)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else root
        if root in self._tools:
            return _Destination(Use.VALUE)
        if name in CONSUMERS:
            return _Destination(Use.AWAITED)
        if name in _PASSING and isinstance(call.func, ast.Name) and not isinstance(argument, ast.Call):
            return self._passed_through(call)
        if name in _COLLECTORS and isinstance(call.func, ast.Attribute):
            return self._into_names(frozenset([root]))
        return _Destination(Use.EITHER if isinstance(self.parents.get(call), ast.Await) else Use.VALUE)

    def _passed_through(self, call: ast.AST) -> _Destination:
        """`calls.items()`, `zip(names, calls)`: what it gives holds what it is given."""
        if not isinstance(call, ast.Call):
            return _Destination(Use.VALUE)
        parent = self.parents.get(call)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is call:
            return self._into([parent.target])
        return self._destination(call)

    def _into_targets(self, targets: Sequence[ast.expr]) -> _Destination:
        if all(isinstance(target, ast.Name) for target in targets):
            return self._into(targets)
        is_taken_apart = any(isinstance(target, (ast.Tuple, ast.List)) for target in targets)
        return _Destination(Use.VALUE if is_taken_apart else Use.EITHER)

    def _into(self, targets: Sequence[ast.expr]) -> _Destination:
        return self._into_names(
            frozenset(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        )

    def _into_names(self, names: frozenset[str]) -> _Destination:
        if not names:
            return _Destination(Use.VALUE)
        found = _Names(names)
        self._names.append(found)
        return _Destination(Use.EITHER, (found,))

    def _is_receiver(self, node: ast.Name) -> bool:
        """`results` in `results.append(…)`: says nothing of what is done with what is in it."""
        parent = self.parents[node]
        return isinstance(parent, ast.Attribute) and parent.attr in _COLLECTORS


def _needs_value(parent: ast.AST, node: ast.AST) -> bool:
    """Whether this place needs the value itself, so that nothing awaitable could be meant."""
    match parent:
        case ast.Attribute() | ast.Compare() | ast.BinOp() | ast.BoolOp() | ast.UnaryOp() | ast.FormattedValue():
            return True
        case ast.Subscript(value=value):
            return value is not node or isinstance(node, ast.Call)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test is node
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
            return isinstance(node, ast.Call) and iterated is node
    return False


def _tool_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Names of tools and their servers; after `import *` also all that nothing else in the program defines."""
    names: set[str] = set()
    others = set(dir(builtins))
    has_star = False
    for node in nodes:
        match node:
            case ast.ImportFrom(module=str(module), names=aliases) if module.partition(".")[0] in _TOOL_MODULES:
                names.update(alias.asname or alias.name for alias in aliases)
                has_star = has_star or aliases[0].name == "*"
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    is_ours = alias.name.partition(".")[0] in _TOOL_MODULES and isinstance(node, ast.Import)
                    (names if is_ours else others).add(alias.asname or alias.name.partition(".")[0])
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                others.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                others.add(name)
    if has_star:
        names.update(node.id for node in nodes if isinstance(node, ast.Name) and node.id not in others)
    return names


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
