"""Expressions of workflows: a part of Python, parsed here and compiled into the program that the workflow becomes.

An expression is Python, not CEL, since the program is: it needs no library in the sandbox, and the static check sees
through it. Only what this module lists gets into the program, and every name in it is made here: `inputs.a` becomes
`input_a`, `steps.a` becomes `step_a`, and `.key` of anything else is a key of data, never an attribute.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

MAX_CHARACTERS = 2_000
MAX_DEPTH = 40
FUNCTIONS = frozenset(
    {"abs", "all", "any", "bool", "dict", "float", "int", "len", "list", "max", "min", "range", "round", "sorted"}
    | {"str", "sum", "zip"}
)
METHODS = frozenset(
    {"endswith", "get", "items", "join", "keys", "lower", "replace", "split", "startswith", "strip", "title", "upper"}
    | {"values"}
)
_KEYWORDS = frozenset({"default", "reverse"})
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_MAX_ENDS = 50
"""Closing braces that are tried as the end of one expression within a text."""


class NotAnExpression(Exception):
    """The text is no expression that a workflow may have; the message says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may use at one place."""

    inputs: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()
    """Of loops around it."""
    has_error: bool = False
    """Whether `error` is what went wrong."""
    local: frozenset[str] = field(default=frozenset())
    """Of comprehensions around it."""


def expression(text: str, scope: Scope) -> ast.expr:
    """The expression for the program.

    Raises:
        NotAnExpression: it is none.
    """
    if len(text) > MAX_CHARACTERS:
        raise NotAnExpression(f"is longer than {MAX_CHARACTERS:,} characters")
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise NotAnExpression(f"is not an expression: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise NotAnExpression("is not an expression") from None
    _check_depth(parsed)
    return _converted(parsed, scope)


def template(text: str, scope: Scope) -> ast.expr:
    """A text with `${expression}` in it; one that is nothing else keeps the type of its value. `$${` is `${`."""
    parts = list(_parts(text, scope))
    match parts:
        case []:
            return ast.Constant("")
        case [only]:
            return only
    texts = [one if _is_text(one) else _call("str", one) for one in parts]
    return ast.Call(ast.Attribute(ast.Constant(""), "join", ast.Load()), [ast.List(texts, ast.Load())], [])


def _parts(text: str, scope: Scope) -> Iterator[ast.expr]:
    plain, position = "", 0
    while (start := text.find("${", position)) >= 0:
        if text[start - 1 : start] == "$" and start > position:
            plain += text[position : start - 1] + "${"
            position = start + 2
            continue
        plain += text[position:start]
        if plain:
            yield ast.Constant(plain)
            plain = ""
        end = _end_of(text, start + 2)
        yield expression(text[start + 2 : end], scope)
        position = end + 1
    if plain + text[position:]:
        yield ast.Constant(plain + text[position:])


def _end_of(text: str, start: int) -> int:
    """Where the closing brace of an expression is; it may have braces of its own."""
    end = text.find("}", start)
    first = end
    for _ in range(_MAX_ENDS):
        if end < 0 or end - start > MAX_CHARACTERS:
            break
        try:
            ast.parse(text[start:end].strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            end = text.find("}", end + 1)
        else:
            return end
    if first < 0:
        raise NotAnExpression("has a `${` without its `}`; write `$${` for a plain one")
    return first


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _check_depth(node: ast.AST) -> None:
    """Before anything recurses."""
    level: list[ast.AST] = [node]
    for _ in range(MAX_DEPTH):
        level = [child for one in level for child in ast.iter_child_nodes(one)]
        if not level:
            return
    raise NotAnExpression(f"is nested more than {MAX_DEPTH} deep")


def _converted(node: ast.expr, scope: Scope) -> ast.expr:
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Name(id=name):
            return _name(name, scope)
        case ast.Attribute(value=ast.Name(id="inputs"), attr=name) if "inputs" not in scope.local:
            return ast.Name(f"input_{_known(name, scope.inputs, 'input')}", ast.Load())
        case ast.Attribute(value=ast.Name(id="steps"), attr=name) if "steps" not in scope.local:
            return ast.Name(f"step_{_known(name, scope.steps, 'step before this one')}", ast.Load())
        case ast.Attribute(value=value, attr=name):
            return ast.Subscript(_converted(value, scope), ast.Constant(name), ast.Load())
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
            bounds = [None if it is None else _converted(it, scope) for it in (lower, upper, step)]
            return ast.Subscript(_converted(value, scope), ast.Slice(*bounds), ast.Load())
        case ast.Subscript(value=value, slice=index):
            return ast.Subscript(_converted(value, scope), _converted(index, scope), ast.Load())
        case ast.Call():
            return _function_call(node, scope)
        case ast.BoolOp(op=operator, values=values):
            return ast.BoolOp(operator, [_converted(it, scope) for it in values])
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
            return ast.BinOp(_converted(left, scope), operator, _converted(right, scope))
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd() as operator, operand=operand):
            return ast.UnaryOp(operator, _converted(operand, scope))
        case ast.Compare(left=left, ops=operators, comparators=others):
            return ast.Compare(_converted(left, scope), operators, [_converted(it, scope) for it in others])
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return ast.IfExp(_converted(test, scope), _converted(body, scope), _converted(otherwise, scope))
        case ast.List(elts=items):
            return ast.List([_converted(it, scope) for it in items], ast.Load())
        case ast.Tuple(elts=items):
            return ast.Tuple([_converted(it, scope) for it in items], ast.Load())
        case ast.Dict(keys=keys, values=values) if None not in keys:
            named = [_converted(it, scope) for it in keys if it is not None]
            return ast.Dict(list(named), [_converted(it, scope) for it in values])
        case ast.ListComp(elt=item, generators=generators):
            loops, inner = _loops(generators, scope)
            return ast.ListComp(_converted(item, inner), loops)
        case ast.GeneratorExp(elt=item, generators=generators):
            loops, inner = _loops(generators, scope)
            return ast.GeneratorExp(_converted(item, inner), loops)
    raise NotAnExpression(f"has what expressions of workflows do not have: `{_shown(node)}`")


def _constant(value: object) -> ast.expr:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotAnExpression("has a number that is too large")
    if value is None or isinstance(value, str | bool | int | float):
        return ast.Constant(value)
    raise NotAnExpression(f"has a constant of the type {type(value).__name__}")


def _name(name: str, scope: Scope) -> ast.expr:
    if name in scope.local:
        return ast.Name(f"local_{name}", ast.Load())
    if name in scope.items:
        return ast.Name(f"each_{name}", ast.Load())
    if name == "error" and scope.has_error:
        return ast.Name("caught", ast.Load())
    if name in ("inputs", "steps"):
        raise NotAnExpression(f"`{name}` has members: write `{name}.<name>`")
    if name in FUNCTIONS:
        raise NotAnExpression(f"`{name}` is a function; write `{name}(…)`")
    known = sorted(scope.items | scope.local) + ["inputs.<name>", "steps.<id>"] + (["error"] if scope.has_error else [])
    meant = [f"inputs.{name}"] if name in scope.inputs else [f"steps.{name}"] if name in scope.steps else []
    hint = f"did you mean `{meant[0]}`?" if meant else f"there are {', '.join(known)}"
    raise NotAnExpression(f"there is no `{name}` here; {hint}")


def _known(name: str, names: frozenset[str], what: str) -> str:
    if name in names:
        return name
    close = get_close_matches(name, sorted(names), 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(names)) or 'none'}"
    raise NotAnExpression(f"there is no {what} {name!r}; {hint}")


def _function_call(node: ast.Call, scope: Scope) -> ast.Call:
    function: ast.expr
    match node.func:
        case ast.Name(id=name) if name in FUNCTIONS and name not in scope.local | scope.items:
            function = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=name) if name in METHODS:
            function = ast.Attribute(_converted(value, scope), name, ast.Load())
        case other:
            names = ", ".join(sorted(FUNCTIONS))
            raise NotAnExpression(f"there is no function `{_shown(other)}`; there are {names}")
    keywords = []
    for keyword in node.keywords:
        if keyword.arg not in _KEYWORDS:
            raise NotAnExpression(f"functions take no argument `{keyword.arg}` here")
        keywords.append(ast.keyword(keyword.arg, _converted(keyword.value, scope)))
    return ast.Call(function, [_converted(it, scope) for it in node.args], keywords)


def _loops(generators: list[ast.comprehension], scope: Scope) -> tuple[list[ast.comprehension], Scope]:
    loops: list[ast.comprehension] = []
    for one in generators:
        source = _converted(one.iter, scope)
        names = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
        if one.is_async or not all(isinstance(it, ast.Name) for it in names):
            raise NotAnExpression("the variable of a comprehension is a plain name")
        given = [it.id for it in names if isinstance(it, ast.Name)]
        scope = replace(scope, local=scope.local | frozenset(given))
        targets: list[ast.expr] = [ast.Name(f"local_{name}", ast.Store()) for name in given]
        target = ast.Tuple(targets, ast.Store()) if isinstance(one.target, ast.Tuple) else targets[0]
        loops.append(ast.comprehension(target, source, [_converted(it, scope) for it in one.ifs], 0))
    return loops, scope


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:60] + "…"
