"""Expressions of workflows: a part of Python, checked here and written into the program that the workflow becomes.

Only what this module lists gets into the program, and every name in it is made here: `inputs.a` becomes `input_a`,
`steps.a` becomes `step_a`, and `.key` of anything else is a key of data, never an attribute.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

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
_AS_THEY_ARE = (
    *(ast.Subscript, ast.Slice, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Dict),
    *(ast.boolop, ast.cmpop, ast.expr_context, ast.Not, ast.USub, ast.UAdd, ast.UnaryOp, ast.BinOp),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
)
"""Kinds of nodes whose children alone are converted."""
_MAX_ENDS = 50
"""Closing braces that are tried as the end of one expression within a text."""


class NotAnExpression(Exception):
    """Raised when a text is no expression that a workflow may have; the message says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may use at one place."""

    inputs: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()
    """Variables of the enclosing loops."""
    has_error: bool = False
    """True if `error` is defined."""
    local: frozenset[str] = field(default=frozenset())
    """Variables of the enclosing comprehensions."""


def expression(text: str, scope: Scope) -> str:
    """The expression as the program has it.

    Raises:
        NotAnExpression: the text is none.
    """
    if len(text) > MAX_CHARACTERS:
        raise NotAnExpression(f"is longer than {MAX_CHARACTERS:,} characters")
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise NotAnExpression(f"is not an expression: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise NotAnExpression("is not an expression") from None
    level: list[ast.AST] = [parsed]
    for _ in range(MAX_DEPTH):  # before anything recurses
        level = [child for one in level for child in ast.iter_child_nodes(one)]
    if level:
        raise NotAnExpression(f"is nested more than {MAX_DEPTH} deep")
    return ast.unparse(ast.fix_missing_locations(_Converter(scope).visit(parsed)))


def template(text: str, scope: Scope) -> str:
    """A text with `${expression}` in it; one that is nothing else keeps the type of its value. `$${` is `${`."""
    parts = list(_parts(text, scope))
    match parts:
        case []:
            return "''"
        case [(only, _)]:
            return only
    return f"''.join([{', '.join(part if is_text else f'str({part})' for part, is_text in parts)}])"


def _parts(text: str, scope: Scope) -> Iterator[tuple[str, bool]]:
    """Expressions for the program, each with whether it is plain text of the file."""
    plain, position = "", 0
    while (start := text.find("${", position)) >= 0:
        if text[start - 1 : start] == "$" and start > position:
            plain += text[position : start - 1] + "${"
            position = start + 2
            continue
        plain += text[position:start]
        if plain:
            yield repr(plain), True
            plain = ""
        end = _end_of(text, start + 2)
        yield expression(text[start + 2 : end], scope), False
        position = end + 1
    if plain + text[position:]:
        yield repr(plain + text[position:]), True


def _end_of(text: str, start: int) -> int:
    """The place of the closing brace of an expression, which may have braces of its own."""
    end = first = text.find("}", start)
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


class _Converter(ast.NodeTransformer):
    """Replaces names and attributes, and refuses what is not listed."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_spread = isinstance(node, ast.Dict) and None in node.keys
        if not isinstance(node, _AS_THEY_ARE) or is_spread:
            raise NotAnExpression(f"has what expressions of workflows do not have: `{_shown(node)}`")
        if isinstance(node, ast.BinOp) and not isinstance(node.op, _AS_THEY_ARE):
            raise NotAnExpression(f"has what expressions of workflows do not have: `{_shown(node)}`")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise NotAnExpression("has a number that is too large")
        if node.value is None or isinstance(node.value, str | bool | int | float):
            return ast.Constant(node.value)
        raise NotAnExpression(f"has a constant of the type {type(node.value).__name__}")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name, scope = node.id, self.scope
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
        known = [*sorted(scope.items | scope.local), "inputs.<name>", "steps.<id>", *(["error"] * scope.has_error)]
        meant = [f"inputs.{name}"] if name in scope.inputs else [f"steps.{name}"] if name in scope.steps else []
        hint = f"did you mean `{meant[0]}`?" if meant else f"there are {', '.join(known)}"
        raise NotAnExpression(f"there is no `{name}` here; {hint}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node.value:
            case ast.Name(id="inputs") if "inputs" not in self.scope.local:
                return ast.Name(f"input_{_known(node.attr, self.scope.inputs, 'input')}", ast.Load())
            case ast.Name(id="steps") if "steps" not in self.scope.local:
                return ast.Name(f"step_{_known(node.attr, self.scope.steps, 'step before this one')}", ast.Load())
        return ast.Subscript(self.visit(node.value), ast.Constant(node.attr), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function: ast.expr
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS and name not in self.scope.local | self.scope.items:
                function = ast.Name(name, ast.Load())
            case ast.Attribute(value=value, attr=name) if name in METHODS:
                function = ast.Attribute(self.visit(value), name, ast.Load())
            case other:
                names = ", ".join(sorted(FUNCTIONS))
                raise NotAnExpression(f"there is no function `{_shown(other)}`; there are {names}")
        for one in node.keywords:
            if one.arg not in _KEYWORDS:
                raise NotAnExpression(f"functions take no argument `{one.arg}` here")
        keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords]
        return ast.Call(function, [self.visit(one) for one in node.args], keywords)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        loops, inner = self._loops(node.generators)
        return ast.ListComp(inner.visit(node.elt), loops)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        loops, inner = self._loops(node.generators)
        return ast.GeneratorExp(inner.visit(node.elt), loops)

    def _loops(self, generators: list[ast.comprehension]) -> tuple[list[ast.comprehension], _Converter]:
        loops: list[ast.comprehension] = []
        inner = self
        for one in generators:
            source = inner.visit(one.iter)
            names: list[Any] = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
            if one.is_async or not all(isinstance(name, ast.Name) for name in names):
                raise NotAnExpression("the variable of a comprehension is a plain name")
            inner = _Converter(replace(inner.scope, local=inner.scope.local | {name.id for name in names}))
            targets: list[ast.expr] = [ast.Name(f"local_{name.id}", ast.Store()) for name in names]
            target = ast.Tuple(targets, ast.Store()) if isinstance(one.target, ast.Tuple) else targets[0]
            loops.append(ast.comprehension(target, source, [inner.visit(test) for test in one.ifs], 0))
        return loops, inner


def _known(name: str, names: frozenset[str], kind: str) -> str:
    if name in names:
        return name
    close = get_close_matches(name, sorted(names), 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(names)) or 'none'}"
    raise NotAnExpression(f"there is no {kind} {name!r}; {hint}")


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:60] + "…"
