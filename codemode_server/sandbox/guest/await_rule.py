"""The rule for calls of tools in synchronous and asynchronous code; pure, for the guest and the host's static check.

Whoever awaits a call gets something to await; everybody else gets its value. Where the value goes decides it:

* `await tool(…)`, `asyncio.gather(tool(…), …)`, and a name, list, attribute, parameter or returned value that the
  program awaits somewhere: something awaitable, which is sent at once; handed to a function that awaits it, it is sent
  when it is awaited (so that a semaphore or a retry there bounds it), and never if nobody awaits it;
* an argument of a function that the text does not show (a variable, a closure, a method of something else): the
  function itself decides when it is called (`calls.handed_over`);
* everything else (`tool(…)["content"]`, a statement of its own, a name that nobody awaits): the value, as if `await`
  stood there; plain code blocks until it is there.

Something awaitable also behaves as its value when it is used, and `await` on a plain value gives that value; so what is
wrong about a place is never an error.

`CallUses` applies the rule to a program's text, `is_async_frame` to a call that is running.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import islice
from types import FrameType
from typing import Any

from .scopes import MAX_ALIKE, SCOPES, Scopes, last_name, root_name

_TOOL_MODULES = ("servers", "skills", "workflows", "client", "codemode")
CONSUMERS = frozenset(
    "gather wait wait_for as_completed shield create_task ensure_future run run_until_complete".split()  # noqa: SIM905
)
"""Functions that are given awaitables, by their last name: asyncio's, and a task group's `create_task`."""
_AWAITING = CONSUMERS - {"wait", "as_completed"}
_COLLECTORS = frozenset(["append", "add", "put", "put_nowait", "appendleft", "insert", "extend", "setdefault"])
_TAKERS = frozenset(["values", "items", "get", "get_nowait", "pop", "popleft"])
_PASSING = frozenset(["zip", "enumerate", "list", "tuple", "set", "dict", "reversed", "islice", "chain"])
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_TRANSPARENT = {"<genexpr>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>"}


class Use(IntEnum):
    """Use of the result of a call; of several uses the highest counts."""

    EITHER = 0
    VALUE = 1
    HANDED_OVER = 2
    """The function decides that gets it."""
    AWAITED = 3


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
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def awaits(body: Sequence[ast.AST]) -> bool:
    """True if code awaits in its own scope, which makes it async."""
    return any(
        isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in own_nodes(body)
    )


class _Group:
    """Names into which one expression puts results: variables, attributes (`.name`), what functions give (`name()`)."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.is_parameters = False
        self.is_awaited = False
        self.is_held = False
        """True if a function of the program awaits it that gets it as an argument."""
        self.use: Use | None = None
        """Set once it is known, so that many results in one group take linear time."""
        self.sources: list[str] = []
        """Names whose results go into these."""


class CallUses(Scopes):
    """The rule for each call in a program."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(tree)
        self._tools = _tool_names(self.nodes)
        self._awaits_at_top = awaits(tree.body)
        self._groups: dict[object, _Group] = {}
        imported = [node for node in self.nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        names = {(one.asname or one.name.partition(".")[0]): node for node in imported for one in node.names}
        self._skills = {name for name, node in names.items() if getattr(node, "module", "").startswith("skills")}
        self._modules = names.keys() - self._skills - self.functions.keys()
        stored = {node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        arguments = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        self._variables = (stored | arguments) - self.functions.keys()

    def is_async(self, node: ast.AST) -> bool:
        """True if the code at a node may await; a lambda may if its caller does."""
        scope = self.scopes[node].scope
        if scope is None:
            return self._awaits_at_top or bool(self.forgotten_gathers)
        return isinstance(scope, (ast.AsyncFunctionDef, ast.Lambda))

    def use_of(self, call: ast.Call) -> Use:
        """Use of the result of a tool call; where it is VALUE, the call gives the value itself."""
        if not self._may_call_tool(call.func):
            return Use.EITHER if self.is_async(call) else Use.VALUE
        use, groups = self._end(call)
        use = max([use, *(self._use_of_names(group) for group in groups)])
        if use is Use.AWAITED:
            return use
        if not self.is_async(call):
            return Use.VALUE
        return Use.EITHER if self.scopes[call].is_deferred else use

    def is_held(self, call: ast.Call) -> bool:
        """True if a call is sent by the function that it is handed to, once that awaits it."""
        use = self.use_of(call)
        return use is Use.HANDED_OVER or (use is Use.AWAITED and any(group.is_held for group in self._end(call)[1]))

    def is_awaited_in_place(self, call: ast.Call) -> bool:
        """True if the expression that a call is part of awaits it, alone or with others."""
        return self.use_of(call) is Use.AWAITED and not self._end(call)[1]

    def calls(self) -> list[ast.Call]:
        """The calls that may be of tools, in a program that awaits anything."""
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        has_async = self._awaits_at_top or any(isinstance(node, ast.AsyncFunctionDef) for node in self.nodes)
        if not self._tools or not (has_async or any(last_name(call.func) in CONSUMERS for call in calls)):
            return []
        return [call for call in calls if self._may_call_tool(call.func)]

    @cached_property
    def forgotten_gathers(self) -> list[ast.Call]:
        """The calls of `asyncio.gather` at top level whose value is used, in a program that awaits nothing there."""
        if self._awaits_at_top or not {"asyncio", "gather"} & self._modules:
            return []
        gathers = [node for node in self.nodes if isinstance(node, ast.Call) and last_name(node.func) == "gather"]
        return [node for node in gathers if self.scopes[node] == (None, False) and self._is_value(node)]

    def _is_value(self, call: ast.Call) -> bool:
        use, groups = self._end(call)
        return Use.AWAITED not in (use, *map(self._use_of_names, groups))

    def awaits_arguments(self, call: ast.Call) -> bool:
        """True if asyncio gets the positional arguments of a call one by one, to await them."""
        name, root = last_name(call.func), root_name(call.func)
        return name in _AWAITING and name not in self.functions and (root == "asyncio" or name != "run")

    def receivers(self, call: ast.Call) -> list[ast.expr]:
        """The expressions that may await a call that is handed over: the function that gets it, and those beside it."""
        node: ast.AST = call
        while not isinstance(outer := self.parents[node], ast.Call):
            node = outer
        return list(islice(filter(_may_be_read_twice, (outer.func, *outer.args)), MAX_ALIKE))

    def _may_call_tool(self, function: ast.expr) -> bool:
        if isinstance(function, (ast.Subscript, ast.Call, ast.IfExp, ast.BoolOp)):
            return True  # `(read if old else create)(…)`, `table[name](…)`, `getattr(server, name)(…)`
        root = root_name(function)
        return root in self._tools or (isinstance(function, ast.Name) and root in self._variables)

    @cached_property
    def _uses(self) -> dict[str, set[Use]]:
        """Uses of each name; as a side effect, notes which groups are awaited."""
        uses: dict[str, set[Use]] = {}
        for node in self.nodes:
            name = self._read_name(node)
            if isinstance(node, ast.Call):
                self._end(node)
            if name:
                awaited = self.parents[node] if isinstance(node, ast.Call) else None
                use, groups = self._end(awaited if isinstance(awaited, ast.Await) else node)
                uses.setdefault(name, set()).add(Use.VALUE if groups and use is Use.EITHER else use)
                for group in groups:
                    group.sources.append(name)
        containing: dict[str, list[_Group]] = {}
        for group in self._groups.values():
            for name in group.names:
                containing.setdefault(name, []).append(group)
        waiting = [(name, False) for name, met in uses.items() if Use.AWAITED in met]
        while waiting:
            name, is_held = waiting.pop()
            for group in containing.get(name, ()):
                now_held = is_held or group.is_parameters
                if not group.is_awaited or (now_held and not group.is_held):
                    group.is_awaited, group.is_held = True, now_held
                    waiting += [(source, now_held) for source in group.sources]
        return uses

    def _read_name(self, node: ast.AST) -> str:
        """The name of what an expression reads; empty if it is none of those that groups have."""
        match node:
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if not self._is_receiver(node):
                return self.name_of(node)
            case ast.Call(func=called) if (name := last_name(called)) in self.functions:
                is_given = any(not isinstance(one, ast.AsyncFunctionDef) for one in self.functions[name][-MAX_ALIKE:])
                return f"{name}()" if is_given or isinstance(self.parents[node], (ast.Await, ast.AsyncFor)) else ""
        return ""

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
        is_call = isinstance(node, ast.Call) and last_name(node.func) not in self.functions
        is_read = isinstance(node, (ast.Name, ast.Attribute))
        while True:
            parent = self.parents.get(node)
            if is_read and isinstance(parent, ast.Attribute) and parent.attr in _TAKERS:
                outer = self.parents[parent]
                if isinstance(outer, ast.Call) and outer.func is parent:  # what it gives are the same values
                    node, parent, is_call = outer, self.parents[outer], False
                    if isinstance(parent, ast.Await):
                        node, parent = parent, self.parents[parent]
            if parent is None or _needs_value(parent, node):
                return Use.VALUE, groups
            match parent:
                case ast.Await():
                    return Use.AWAITED, groups
                case ast.For() | ast.AsyncFor() | ast.comprehension() if parent.iter is node:
                    if is_call and isinstance(node, ast.Call):
                        return Use.VALUE, groups
                    return Use.EITHER, [*groups, self._group([parent.target])]
                case ast.Starred() | ast.List() | ast.Tuple() | ast.Set() | ast.IfExp() | ast.BoolOp() | ast.keyword():
                    node = parent
                case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) if part is node:
                    node = parent
                case ast.DictComp(value=part) if part is node:
                    node = parent
                case ast.Dict() | ast.Subscript(ctx=ast.Load()):
                    node = parent
                case ast.NamedExpr():
                    groups.append(self._group([parent.target]))
                    node = parent
                case ast.Call(func=called) if node is not called:
                    if last_name(called) in _PASSING and not (is_call and isinstance(node, ast.Call)):
                        node = parent
                        continue
                    use, more = self._use_in_call(parent, node, is_call=is_call)
                    return use, [*groups, *more]
                case ast.Return() | ast.Yield():
                    scope = self.scopes[parent].scope
                    name = f"{getattr(scope, 'name', '')}()"
                    return Use.EITHER, [*groups, self._group(name, frozenset([name]))]
                case ast.Assign(targets=targets):
                    return Use.EITHER, [*groups, self._group(targets)]
                case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                    return Use.EITHER, [*groups, self._group([target])]
                case _:
                    return Use.VALUE, groups

    def _use_in_call(self, call: ast.Call, node: ast.AST, *, is_call: bool) -> tuple[Use, list[_Group]]:
        """Use of an argument of a call."""
        root, name = root_name(call.func), last_name(call.func)
        if root in self._tools and root not in self._skills:
            return Use.VALUE, []
        if name in CONSUMERS and (root == "asyncio" or name not in self.functions):
            return Use.AWAITED, []
        names = self.names_within(call, node)
        groups = []
        if names:
            groups.append(self._group(names, names))
            groups[0].is_parameters = True
        if name in _COLLECTORS and isinstance(call.func, ast.Attribute) and (holder := self.name_of(call.func.value)):
            groups.append(self._group(call, frozenset([holder])))
        if groups:
            return Use.EITHER, groups
        if isinstance(call.func, ast.Attribute):
            is_unknown = (
                is_call and root not in self._modules and not isinstance(call.func.value, (ast.Constant, ast.JoinedStr))
            )
        elif not _may_be_read_twice(call.func):
            return Use.EITHER, []
        else:
            is_unknown = root in self._variables or root in self._skills or not root
        return (Use.VALUE if not is_unknown else Use.HANDED_OVER if is_call else Use.EITHER), []

    def _group(self, targets: Any, names: frozenset[str] | None = None) -> _Group:
        """The names in targets; one group for each place, however many results go there."""
        key = targets[0] if isinstance(targets, list) else targets
        if key not in self._groups:
            parts = () if names is not None else (node for target in targets for node in ast.walk(target))
            stored = (self.name_of(node) for node in parts if isinstance(getattr(node, "ctx", None), ast.Store))
            self._groups[key] = _Group(frozenset(filter(None, stored)) if names is None else names)
        return self._groups[key]

    def _is_receiver(self, node: ast.AST) -> bool:
        """`results` in `results.append(…)`: says nothing of what is done with what is in it."""
        parent = self.parents[node]
        return isinstance(parent, ast.Attribute) and parent.attr in _COLLECTORS


def _needs_value(parent: ast.AST, node: ast.AST) -> bool:
    """True if this place needs the value itself, so that nothing awaitable could be meant."""
    match parent:
        case ast.Attribute() | ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.FormattedValue():
            return True
        case ast.BoolOp(values=values):
            return values[-1] is not node
        case ast.Subscript(value=value):
            return value is not node or isinstance(node, ast.Call)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test is node
    return False


def _may_be_read_twice(function: ast.expr) -> bool:
    kinds = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)
    return not isinstance(function, ast.Constant) and all(isinstance(node, kinds) for node in ast.walk(function))


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
