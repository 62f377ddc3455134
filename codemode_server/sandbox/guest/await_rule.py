"""The rule for calls of tools in synchronous and asynchronous code; pure, for the guest and the host's static check.

A call is sent at once. Plain code gets its value, and blocks until it is there. In async code (an `async def`, or a
program that awaits at top level) it depends on where the result goes:

* `await tool(…)`, `asyncio.gather(tool(…), …)`, and a name that is awaited somewhere (`tasks.append(tool(…))` with
  `tasks` gathered later): the program awaits it, and gets something awaitable;
* everywhere else (`tool(…)["content"]`, `x = tool(…)` with an `x` that nobody awaits, `re.findall(pattern, tool(…))`, a
  statement of its own): the value, as if `await` stood there;
* where the text can't tell (an argument of a coroutine function or of a call that is awaited, an item of a dict, in a
  lambda, a tool under another name): something awaitable that behaves as its value when it is used.

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
    """Use of the result of a call; of several uses the highest counts."""

    EITHER = 0
    VALUE = 1
    AWAITED = 2


def is_async_frame(frame: FrameType | None) -> bool:
    """True if the code that runs in a frame could await a call it makes."""
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
    """True if code awaits in its own scope, which makes it async."""
    return any(
        isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in own_nodes(body)
    )


class _Group:
    """Names into which one statement puts results."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.is_awaited = False
        self.use: Use | None = None
        """Set once it is known, so that many results in one group take linear time."""
        self.sources: list[str] = []
        """Names whose results go into these."""


class _Place(NamedTuple):
    """Surroundings of a node."""

    scope: ast.AST | None
    """The innermost function or class; None at top level."""
    is_deferred: bool
    """True if a lambda or a generator expression runs it later: an `await` there would change what it gives."""


class CallUses:
    """The rule for each call in a program."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._tools = _tool_names(self._nodes)
        self._coroutines = {node.name for node in self._nodes if isinstance(node, ast.AsyncFunctionDef)}
        self._is_async_at_top = awaits(tree.body)
        self._groups: dict[ast.AST, _Group] = {}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}

    def is_async(self, node: ast.AST) -> bool:
        """True if the code at a node may await; a lambda may if its caller does."""
        scope = self._scopes[node].scope
        return self._is_async_at_top if scope is None else isinstance(scope, (ast.AsyncFunctionDef, ast.Lambda))

    def use_of(self, call: ast.Call) -> Use:
        """Use of the result of a tool call; where it is VALUE, the call gives the value itself."""
        if not self.is_async(call):
            return Use.VALUE
        if _root_name(call.func) not in self._tools or self._scopes[call].is_deferred:
            return Use.EITHER
        use, groups = self._end(call)
        return max([use, *(self._use_of_names(group) for group in groups)])

    def is_awaited_in_place(self, call: ast.Call) -> bool:
        """True if the expression that a call is part of awaits it, alone or with others."""
        return self.use_of(call) is Use.AWAITED and not self._end(call)[1]

    def forgotten_awaits(self) -> list[ast.Call]:
        """The calls of tools in async code that need an `await` to give their value."""
        if not self._tools or not (self._is_async_at_top or self._coroutines):
            return []
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and _root_name(node.func) in self._tools]
        return [call for call in calls if self.is_async(call) and self.use_of(call) is Use.VALUE]

    @cached_property
    def _scopes(self) -> dict[ast.AST, _Place]:
        """By node; decorators and defaults are outside of their function."""
        scopes: dict[ast.AST, _Place] = {self._nodes[0]: _Place(None, is_deferred=False)}
        for parent in self._nodes:  # each before its children
            place = scopes[parent]
            for child in ast.iter_child_nodes(parent):
                is_body = isinstance(child, ast.stmt) or child is getattr(parent, "body", None)
                scope = parent if is_body and isinstance(parent, _SCOPES) else place.scope
                is_deferred = place.is_deferred or isinstance(parent, (ast.GeneratorExp, ast.Lambda))
                scopes[child] = _Place(scope, is_deferred=is_deferred and not isinstance(child, ast.stmt))
        return scopes

    @cached_property
    def _uses(self) -> dict[str, set[Use]]:
        """Uses of each name; as a side effect, notes which groups are awaited."""
        uses: dict[str, set[Use]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._end(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self._is_receiver(node):
                use, groups = self._end(node)
                uses.setdefault(node.id, set()).add(Use.VALUE if groups and use is Use.EITHER else use)
                for group in groups:
                    group.sources.append(node.id)
        containing: dict[str, list[_Group]] = {}
        for group in self._groups.values():
            for name in group.names:
                containing.setdefault(name, []).append(group)
        waiting = [name for name, found in uses.items() if Use.AWAITED in found]
        while waiting:
            for group in containing.get(waiting.pop(), ()):
                if not group.is_awaited:
                    group.is_awaited = True
                    waiting += group.sources
        return uses

    def _use_of_names(self, group: _Group) -> Use:
        uses = self._uses
        if group.use is None:
            is_either = any(name in uses for name in group.names) and all(
                uses.get(name, {Use.EITHER}) == {Use.EITHER} for name in group.names
            )
            group.use = Use.AWAITED if group.is_awaited else Use.EITHER if is_either else Use.VALUE
        return group.use

    def _end(self, node: ast.AST) -> tuple[Use, list[_Group]]:
        """Where the value of an expression goes: to a use, or into names that are used elsewhere."""
        groups: list[_Group] = []
        while True:
            parent = self.parents.get(node)
            if isinstance(parent, ast.Attribute) and parent.attr in ("values", "items") and isinstance(node, ast.Name):
                node, parent = parent, self.parents[parent]
                if isinstance(parent, ast.Call) and parent.func is node:  # what it gives holds the same values
                    node, parent = parent, self.parents.get(parent)
                    if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
                        return Use.EITHER, [*groups, self._group([parent.target])]
            if parent is None or _needs_value(parent, node):
                return Use.VALUE, groups
            match parent:
                case ast.Await():
                    return Use.AWAITED, groups
                case ast.For() | ast.comprehension() if parent.iter is node:
                    return Use.EITHER, [*groups, self._group([parent.target])]
                case ast.Starred() | ast.List() | ast.Tuple() | ast.Set() | ast.IfExp() | ast.keyword():
                    node = parent
                case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) if part is node:
                    node = parent
                case ast.DictComp(value=part) if part is node:
                    node = parent
                case ast.NamedExpr():
                    groups.append(self._group([parent.target]))
                    node = parent
                case ast.Call(func=called) if node is not called:
                    if last_name(called) in _PASSING and not isinstance(node, ast.Call):
                        node = parent
                        outer = self.parents.get(parent)
                        if isinstance(outer, (ast.For, ast.comprehension)) and outer.iter is node:
                            return Use.EITHER, [*groups, self._group([outer.target])]
                        continue
                    if last_name(called) in _COLLECTORS and isinstance(called, ast.Attribute):
                        if name := _root_name(called):
                            return Use.EITHER, [*groups, self._group([called], frozenset([name]))]
                        return Use.VALUE, groups
                    return self._use_in_call(parent), groups
                case ast.Assign(targets=targets):
                    return self._into(targets, groups)
                case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                    return self._into([target], groups)
                case ast.Dict():
                    return Use.EITHER, groups
                case _:
                    return Use.VALUE, groups

    def _use_in_call(self, call: ast.Call) -> Use:
        """Use of the arguments of a call."""
        if _root_name(call.func) in self._tools:
            return Use.VALUE
        name = last_name(call.func)
        if name in CONSUMERS:
            return Use.AWAITED
        awaiting = [name, *(last_name(argument) for argument in call.args)]  # `safe(tool())`, `map(safe, [tool()])`
        if not self._coroutines.isdisjoint(awaiting) or self._end(call)[0] is Use.AWAITED:
            return Use.EITHER
        return Use.VALUE

    def _into(self, targets: Sequence[ast.expr], groups: list[_Group]) -> tuple[Use, list[_Group]]:
        if all(isinstance(target, ast.Name) for target in targets):
            return Use.EITHER, [*groups, self._group(targets)]
        is_taken_apart = any(isinstance(target, (ast.Tuple, ast.List)) for target in targets)
        return (Use.VALUE if is_taken_apart else Use.EITHER), groups

    def _group(self, targets: Sequence[ast.expr], names: frozenset[str] | None = None) -> _Group:
        """The names in targets; one group for each place, however many results go there."""
        if targets[0] not in self._groups:
            parts = (node for target in targets for node in ast.walk(target))
            found = frozenset(node.id for node in parts if isinstance(node, ast.Name))
            self._groups[targets[0]] = _Group(found if names is None else names)
        return self._groups[targets[0]]

    def _is_receiver(self, node: ast.Name) -> bool:
        """`results` in `results.append(…)`: says nothing of what is done with what is in it."""
        parent = self.parents[node]
        return isinstance(parent, ast.Attribute) and parent.attr in _COLLECTORS


def _needs_value(parent: ast.AST, node: ast.AST) -> bool:
    """True if this place needs the value itself, so that nothing awaitable could be meant."""
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


def last_name(node: ast.AST) -> str:
    """`b` of `b`, `a.b` and `x().b`; else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
