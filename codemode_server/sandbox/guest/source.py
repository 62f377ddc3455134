"""From a program's text to code that can be run: its value, `return` at top level, and the awaits a model forgets.

Four small changes to the syntax tree, none of which moves a line:

* a last expression hands its value to the runner;
* only where the program returns at top level, its body becomes a function that declares all its names global;
* `await` takes values too, and `gather` at top level is awaited if nothing there is;
* a call of a tool gives what the place it stands at needs (see `await_rule`).
"""

from __future__ import annotations

import ast
import inspect
import types

from .await_rule import CallUses, Use, awaits, own_nodes
from .scopes import last_name

VALUE_HOOK = "__codemode_value__"
FINISH_HOOK = "__codemode_finish__"
AWAIT_HOOK = "__codemode_await__"
HAND_OVER_HOOK = "__codemode_hand_over__"
AWAITED_HOOK = "__codemode_awaited__"
BODY_NAME = "__codemode_body__"


def compile_program(text: str, filename: str) -> types.CodeType:
    """The code of a program, to be evaluated in a module's namespace. Raises `SyntaxError` if it is no Python."""
    tree = _awaiting(text, filename)
    if _has(tree.body, ast.Return) and not _has(tree.body, (ast.Yield, ast.YieldFrom)):
        tree = _as_function(tree)
    else:
        _give_value(tree.body)
    ast.fix_missing_locations(tree)
    code: types.CodeType = compile(tree, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def compile_skill(text: str, filename: str) -> types.CodeType:
    """The code of a skill's module, with the same awaits as in a program."""
    tree = _awaiting(text, filename)
    ast.fix_missing_locations(tree)
    return compile(tree, filename, "exec", dont_inherit=True)


def is_coroutine_code(code: types.CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _has(body: list[ast.stmt], kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(node, kinds) for node in own_nodes(body))


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
    if isinstance(last, ast.If) and is_main_check(last.test):
        return _last_expression(last.body)
    return None


def is_main_check(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _hook(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


# A program that returns at top level ---------------------------------------------------------------------------------


def _as_function(tree: ast.Module) -> ast.Module:
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in future]
    found = _last_expression(body)
    if found is not None:
        where, last = found
        where[-1] = ast.copy_location(ast.Return(last.value), last)
    names = sorted(_bound_names(body))
    body = [_Globals().visit(statement) for statement in body]
    if names:
        body.insert(0, ast.Global(names))
    kind = ast.AsyncFunctionDef if awaits(body) else ast.FunctionDef
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

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

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
        in_module = ast.Call(ast.Name("globals", ast.Load()), [], [])
        return ast.copy_location(ast.Expr(_hook("exec", ast.Constant(ast.unparse(node)), in_module)), node)


def _bound_names(body: list[ast.stmt]) -> set[str]:
    return {name for node in own_nodes(body) for name in bound_by(node) if name != "*"}


def bound_by(node: ast.AST) -> tuple[str, ...]:
    """The names that this node itself gives a meaning, or takes it from."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=other):
            return (other or name.partition(".")[0],)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
    is_type = type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple")  # newer than our oldest Python
    return (str(getattr(node, "name", "")),) if is_type else ()


# Awaits that were forgotten ------------------------------------------------------------------------------------------


def _awaiting(text: str, filename: str) -> ast.Module:
    tree = ast.parse(text, filename)
    uses = CallUses(tree)
    for call, use, is_held in [(call, uses.use_of(call), uses.is_held(call)) for call in uses.calls()]:
        is_async, parent, function = uses.is_async(call), uses.parents[call], call.func
        if is_held or (use is Use.AWAITED and not is_async):
            call.func = ast.copy_location(_hook(AWAITED_HOOK, function, ast.Constant(is_held)), function)
        if is_async and use is Use.HANDED_OVER:
            handed = _hook(HAND_OVER_HOOK, call, *uses.receivers(call))
            replace_node(parent, call, ast.copy_location(ast.Await(handed), call))
        elif is_async and use is Use.VALUE:
            replace_node(parent, call, ast.copy_location(ast.Await(_hook(FINISH_HOOK, call)), call))
    for call in uses.forgotten_gathers:
        replace_node(uses.parents[call], call, ast.copy_location(ast.Await(call), call))
    for node in uses.nodes:
        if isinstance(node, ast.Await):
            node.value = ast.copy_location(_hook(AWAIT_HOOK, node.value), node.value)
        elif isinstance(node, ast.Call) and uses.awaits_arguments(node):
            number = None if last_name(node.func) == "gather" else 1  # the others take one and its options
            node.args[:number] = [_awaitable(one) for one in node.args[:number]]
    return tree


def _awaitable(argument: ast.expr) -> ast.expr:
    if not isinstance(argument, ast.Starred):
        return ast.copy_location(_hook(AWAIT_HOOK, argument), argument)
    each = _hook(AWAIT_HOOK, ast.Name("each", ast.Load()))
    over = ast.comprehension(ast.Name("each", ast.Store()), argument.value, [], is_async=0)
    return ast.copy_location(ast.Starred(ast.GeneratorExp(each, [over]), ast.Load()), argument)


def replace_node(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
