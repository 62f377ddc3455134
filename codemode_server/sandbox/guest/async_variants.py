"""The async variant of a function of the program's: the same function, which gives its turn away while a tool works.

`pool.map(lambda repo: len(list_issues(repo=repo)), repos)` is written for threads. Where there are none, the lambda is
compiled once more as a coroutine in which the calls that can reach a tool are awaited, so that all of them overlap on
the host. Names, closures, defaults and line numbers stay. A function that reaches no tool, or is a generator, has no
variant and runs in place; so does a call inside a generator expression or a nested lambda.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import time
import types
from collections.abc import Callable, Coroutine
from typing import Any

from .modules import PROGRAM_FILES
from .stubs import Stub

AsyncVariant = Callable[..., Coroutine[Any, Any, Any]]
"""Takes what to call for each step, then the function's own arguments."""

_STEP = "__codemode_step__"
_FACTORY = "__codemode_factory__"
_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FunctionNode = ast.FunctionDef | ast.Lambda

_trees: dict[str, ast.Module] = {}
_variants: dict[types.CodeType, types.CodeType | None] = {}


def _tree(filename: str) -> ast.Module | None:
    if filename not in PROGRAM_FILES:
        return None
    if filename not in _trees:
        _trees[filename] = ast.parse("".join(linecache.getlines(filename)), filename)
    return _trees[filename]


def async_variant_of(function: Callable[..., Any]) -> AsyncVariant | None:
    """The variant of a function or method of the program's, if it has one."""
    if isinstance(function, types.MethodType):
        inner, bound = async_variant_of(function.__func__), function.__self__
        return None if inner is None else lambda step, *a, **k: inner(step, bound, *a, **k)
    if not isinstance(function, types.FunctionType) or function.__code__.co_flags & _NOT_PLAIN:
        return None
    if function.__code__ not in _variants:
        _variants[function.__code__] = None  # while it is made, a recursion to itself has none
        _variants[function.__code__] = _compile(function)
    code = _variants[function.__code__]
    if code is None:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def variant(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        closure = tuple(types.CellType(step) if name == _STEP else cells[name] for name in code.co_freevars)
        copy = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        copy.__kwdefaults__ = function.__kwdefaults__
        coroutine: Coroutine[Any, Any, Any] = copy(*args, **kwargs)
        return coroutine

    return variant


def _compile(function: types.FunctionType) -> types.CodeType | None:
    tree = _tree(function.__code__.co_filename)
    node = None if tree is None else _node_of(function.__code__, tree)
    if tree is None or node is None:
        return None
    awaiting = _Awaiting(function, tree)
    body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    body = [awaiting.visit(ast.fix_missing_locations(_copy(statement))) for statement in body]
    if not awaiting.reaches_a_tool:
        return None
    variant = ast.AsyncFunctionDef(function.__name__, _without_defaults(node.args), body, [])
    if not variant.name.isidentifier():
        variant.name = "lambda_"
    variables = [ast.Name(name, ast.Store()) for name in (*function.__code__.co_freevars, _STEP)]
    factory = ast.FunctionDef(_FACTORY, _no_arguments(), [ast.Assign(list(variables), ast.Constant(None)), variant], [])
    module = ast.fix_missing_locations(ast.Module([factory], []))
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    made = _nested(_nested(code, _FACTORY), variant.name)
    known = {*function.__code__.co_freevars, _STEP}
    if not known.issuperset(made.co_freevars):
        return None
    return made.replace(co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname)


class _Awaiting(ast.NodeTransformer):
    """Awaits the calls of a function that can reach a tool, and leaves all others as they are."""

    def __init__(self, function: types.FunctionType, tree: ast.Module) -> None:
        self.reaches_a_tool = False
        closure = inspect.getclosurevars(function)
        self._known = {**function.__globals__, **closure.nonlocals}
        self._locals = set(function.__code__.co_varnames)
        self._methods = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not self._can_wait(node.func):
            return node
        step = ast.Call(ast.Name(_STEP, ast.Load()), [node.func, *node.args], node.keywords)
        return ast.fix_missing_locations(ast.copy_location(ast.Await(ast.copy_location(step, node)), node))

    def _can_wait(self, called: ast.expr) -> bool:
        found = self._resolve(called)
        if found is time.sleep:
            return True
        if isinstance(found, Stub) or async_variant_of(found) is not None:
            self.reaches_a_tool = True
            return True
        if found is not None:
            return False
        root = called
        while isinstance(root, ast.Attribute):
            root = root.value
        is_local = isinstance(root, ast.Name) and root.id in self._locals
        if is_local and (root is called or (isinstance(called, ast.Attribute) and called.attr in self._methods)):
            self.reaches_a_tool = True  # a function or object it was given: known only once it runs
            return True
        return False

    def _resolve(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if node.id in self._locals:
                return None
            return self._known.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            owner = self._resolve(node.value)
            if isinstance(owner, Stub):
                return owner.raw if node.attr == "raw" else None
            return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
        return None

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_GeneratorExp = _leave


def _node_of(code: types.CodeType, tree: ast.Module) -> _FunctionNode | None:
    if code.co_name != "<lambda>":
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    places = {p for p in code.co_positions() if p[2] is not None and p[3] is not None and p[3] > p[2]}
    fitting = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)) == arguments
        and all(_contains(node, place) for place in places)
    ]
    return min(
        fitting,
        key=lambda n: (n.end_lineno or 0) * 10_000 + (n.end_col_offset or 0) - n.lineno * 10_000 - n.col_offset,
        default=None,
    )


def _contains(node: ast.expr, place: tuple[Any, ...]) -> bool:
    line, end_line, column, end_column = place
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= (line, column) and (end_line, end_column) <= end


def _copy(node: ast.AST) -> Any:
    fields = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            fields[name] = _copy(value)
        elif isinstance(value, list):
            fields[name] = [_copy(item) if isinstance(item, ast.AST) else item for item in value]
        else:
            fields[name] = value
    return ast.copy_location(type(node)(**fields), node) if hasattr(node, "lineno") else type(node)(**fields)


def _without_defaults(arguments: ast.arguments) -> ast.arguments:
    """The same parameters; the defaults that the function has already are given to the variant as they are."""
    bare = _copy(arguments)
    bare.defaults = [ast.Constant(None) for _ in bare.defaults]
    bare.kw_defaults = [None if default is None else ast.Constant(None) for default in bare.kw_defaults]
    for argument in ast.walk(bare):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    result: ast.arguments = bare
    return result


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _nested(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
