"""From a program's text to code that can be run: its value, `return` at top level, and the awaits a model forgets.

Three small changes to the syntax tree, none of which moves a line:

* a last expression hands its value to the runner;
* only where the program returns at top level, its body becomes a function that declares all its names global;
* in async code, a call of a tool is awaited unless the program plainly does so itself (see `calls`).
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Iterator
from enum import IntEnum

VALUE_HOOK = "__codemode_value__"
FINISH_HOOK = "__codemode_finish__"
STAR_HOOK = "__codemode_star__"
BODY_NAME = "__codemode_body__"

_TOOL_MODULES = ("servers", "skills", "client", "codemode")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONSUMERS = frozenset(
    "gather wait wait_for as_completed shield create_task ensure_future run run_until_complete".split()  # noqa: SIM905
)
"""Functions that are given awaitables, by their last name: asyncio's, and a task group's `create_task`."""
_COLLECTS = frozenset(["append", "add", "put", "put_nowait", "appendleft", "insert", "extend"])


def compile_program(text: str, filename: str) -> tuple[types.CodeType, ast.Module]:
    """The code of a program, to be evaluated in a module's namespace, and its tree.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(text, filename)
    _await_used_calls(tree)
    if _has(tree.body, ast.Return) and not _has(tree.body, (ast.Yield, ast.YieldFrom)):
        tree = _as_function(tree)
    else:
        _give_value(tree.body)
    ast.fix_missing_locations(tree)
    return compile(tree, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), tree


def is_coroutine_code(code: types.CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything in a body that belongs to its own scope, not to a function or class in it."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _has(body: list[ast.stmt], kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(node, kinds) for node in _own_nodes(body))


def _awaits(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in _own_nodes(body)
    )


# The value of the last expression ------------------------------------------------------------------------------------


def _give_value(body: list[ast.stmt]) -> None:
    found = _last_expression(body)
    if found is not None:
        where, last = found
        where[-1] = ast.copy_location(ast.Expr(ast.copy_location(_hook(VALUE_HOOK, last.value), last.value)), last)


def _last_expression(body: list[ast.stmt]) -> tuple[list[ast.stmt], ast.Expr] | None:
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        return body, last
    if isinstance(last, ast.If) and _is_main_check(last.test):
        return _last_expression(last.body)
    return None


def _is_main_check(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _hook(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


# A program that returns at top level ---------------------------------------------------------------------------------


def _as_function(tree: ast.Module) -> ast.Module:
    body, future = list(tree.body), []
    while body and isinstance(body[0], ast.ImportFrom) and body[0].module == "__future__":
        future.append(body.pop(0))
    found = _last_expression(body)
    if found is not None:
        where, last = found
        where[-1] = ast.copy_location(ast.Return(last.value), last)
    names = sorted(_bound_names(body))
    body = [_Globals().visit(statement) for statement in body]
    if names:
        body.insert(0, ast.Global(names))
    kind = ast.AsyncFunctionDef if _awaits(body) else ast.FunctionDef
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = kind(name=BODY_NAME, args=nothing, body=body, decorator_list=[], type_params=[])  # type: ignore[call-arg]
    call: ast.expr = ast.Call(ast.Name(BODY_NAME, ast.Load()), [], [])
    if kind is ast.AsyncFunctionDef:
        call = ast.Await(call)
    take_away = ast.Delete([ast.Name(BODY_NAME, ast.Del())])
    handed_over = ast.Expr(_hook(VALUE_HOOK, call))
    return ast.Module([*future, function, ast.Try([handed_over], [], [], [take_away])], [])


class _Globals(ast.NodeTransformer):
    """Makes of module code what a function may hold."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)  # all names are declared already

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.names[0].name != "*":
            return node
        return ast.copy_location(ast.Expr(_hook(STAR_HOOK, ast.Constant(node.module or ""))), node)


def _bound_names(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in _own_nodes(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names if alias.name != "*")
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


# Awaits that were forgotten ------------------------------------------------------------------------------------------


def _await_used_calls(tree: ast.Module) -> None:
    """Put `await` before the tool calls of async code that are not plainly meant to be awaited elsewhere."""
    tools = _tool_names(tree)
    if not tools:
        return
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    if _awaits(tree.body):
        bodies.append(tree.body)
    flow = _Flow(tree, tools)
    forgotten = [
        node
        for body in bodies
        for node in _own_nodes(body)
        if isinstance(node, ast.Call) and _root_name(node.func) in tools and not flow.is_awaitable(node)
    ]
    for node in forgotten:
        _replace(flow.parents[node], node, ast.copy_location(ast.Await(_hook(FINISH_HOOK, node)), node))


def _tool_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _TOOL_MODULES:
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _TOOL_MODULES:
                    names.add(alias.asname or alias.name.partition(".")[0])
    return names


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class _Use(IntEnum):
    """What a place does with an expression, the surer the higher."""

    UNSAID = 0  # handed to a function that is awaited itself: either may be meant
    VALUE = 1
    AWAITED = 2


class _Flow:
    """Where the results of calls go in a program: to an `await`, or to something that needs the value."""

    def __init__(self, tree: ast.Module, tools: set[str]) -> None:
        self.parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        self._tools = tools
        self._uses: dict[str, list[ast.Name]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._uses.setdefault(node.id, []).append(node)

    def is_awaitable(self, call: ast.Call) -> bool:
        """Whether what this call gives has to stay awaitable."""
        return _inside_generator_expression(call, self.parents) or self._use_of(call, ()) is not _Use.VALUE

    def _use_of(self, node: ast.expr, seen: tuple[str, ...]) -> _Use:
        """What is done with an expression where it stands, or with the names and lists that it is put into."""
        parent = self.parents[node]
        if isinstance(parent, ast.Attribute) and parent.attr in ("values", "items") and isinstance(node, ast.Name):
            whole = self.parents[parent]
            return self._use_of(whole, seen) if isinstance(whole, ast.Call) else _Use.VALUE
        if _needs_value(parent, node):
            return _Use.VALUE
        match parent:
            case ast.Await():
                return _Use.AWAITED
            case ast.For() | ast.comprehension() if parent.iter is node:
                return self._use_of_names(_names_in(parent.target), seen)
            case ast.Starred() | ast.List() | ast.Tuple() | ast.Set() | ast.IfExp():
                return self._use_of(parent, seen)
            case ast.keyword():
                return self._of_argument(parent, seen)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() if parent.elt is node:
                return self._use_of(parent, seen)
            case ast.DictComp() if parent.value is node:
                return self._use_of(parent, seen)
            case ast.Call() if node is not parent.func:
                return self._of_argument(node, seen)
            case ast.Assign():
                return self._of_targets(parent.targets, seen)
            case ast.AnnAssign():
                return self._of_targets([parent.target], seen)
            case ast.NamedExpr():
                return max(self._of_targets([parent.target], seen), self._use_of(parent, seen))
            case ast.AugAssign():
                return self._of_targets([parent.target], seen)
            case ast.Dict():
                return _Use.UNSAID
            case _:
                return _Use.VALUE

    def _of_argument(self, node: ast.expr | ast.keyword, seen: tuple[str, ...]) -> _Use:
        call = self.parents[node]
        if not isinstance(call, ast.Call):  # the keyword of a class statement
            return _Use.VALUE
        name = call.func.attr if isinstance(call.func, ast.Attribute) else _root_name(call.func)
        if _root_name(call.func) in self._tools:
            return _Use.VALUE
        if name in _CONSUMERS:
            return _Use.AWAITED
        if name in _COLLECTS and isinstance(call.func, ast.Attribute):
            return self._use_of_names({_root_name(call.func)}, seen)
        return _Use.UNSAID if isinstance(self.parents[call], ast.Await) else _Use.VALUE

    def _of_targets(self, targets: list[ast.expr], seen: tuple[str, ...]) -> _Use:
        if all(isinstance(target, ast.Name) for target in targets):
            return self._use_of_names(set().union(*map(_names_in, targets)), seen)
        if any(isinstance(target, (ast.Tuple, ast.List)) for target in targets):
            return _Use.VALUE
        return _Use.UNSAID

    def _use_of_names(self, names: set[str], seen: tuple[str, ...]) -> _Use:
        """The surest of what is done with any of these, anywhere in the program; nothing at all leaves the value."""
        nodes = [node for name in names - set(seen) for node in self._uses.get(name, ())]
        nodes = [node for node in nodes if not self._is_receiver(node) and node in self.parents]
        return max((self._use_of(node, (*seen, *names)) for node in nodes), default=_Use.VALUE)

    def _is_receiver(self, node: ast.Name) -> bool:
        """`results` in `results.append(…)`: says nothing of what is done with what is in it."""
        parent = self.parents[node]
        return isinstance(parent, ast.Attribute) and parent.attr in _COLLECTS


def _needs_value(parent: ast.AST, node: ast.expr) -> bool:
    """Whether this place needs the value itself, so that nothing awaitable could be meant."""
    if isinstance(parent, (ast.Attribute, ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.FormattedValue)):
        return True
    if isinstance(parent, ast.Subscript):
        return parent.value is not node or isinstance(node, ast.Call)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, (ast.For, ast.comprehension)):
        return isinstance(node, ast.Call) and parent.iter is node
    return False


def _names_in(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def _inside_generator_expression(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """There an await would make an async generator of it, which its consumer can't take."""
    while node in parents and not isinstance(node, ast.stmt):
        node = parents[node]
        if isinstance(node, ast.GeneratorExp):
            return True
    return False


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
