"""Expressions of workflows: a part of Python, checked here and written into the program that the workflow becomes.

Only what this module lists gets into the program, and every name in it is made here: `inputs.a` becomes `input_a`,
`steps.a` becomes `step_a`, and `.key` of anything else is a key of data, never an attribute.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from codemode_server.config.problems import nearest

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
    inputs: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    """Other variables, of loops for instance, each with its name in the program."""

    def with_name(self, name: str, in_program: str) -> Scope:
        return replace(self, names={**self.names, name: in_program})


def expression(text: str, scope: Scope) -> str:
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
    if len(parts) == 1:
        return parts[0][0]
    return f"''.join([{', '.join(part if is_text else f'str({part})' for part, is_text in parts)}])" if parts else "''"


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
        is_other_operator = isinstance(node, ast.BinOp) and not isinstance(node.op, _AS_THEY_ARE)
        if not isinstance(node, _AS_THEY_ARE) or is_spread or is_other_operator:
            raise NotAnExpression(f"has what expressions of workflows do not have: `{_shown(node)}`")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        is_infinite = isinstance(node.value, float) and not math.isfinite(node.value)
        if is_infinite or not isinstance(node.value, str | bool | int | float | None):
            raise NotAnExpression(f"has a constant that is not supported: `{_shown(node)}`")
        return ast.Constant(node.value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name, scope = node.id, self.scope
        if name in scope.names:
            return ast.Name(scope.names[name], ast.Load())
        if name in scope.inputs | scope.steps:
            hint = f"did you mean `{'inputs' if name in scope.inputs else 'steps'}.{name}`?"
        else:
            hint = f"there are {', '.join([*sorted(scope.names), 'inputs.<name>', 'steps.<id>'])}"
        raise NotAnExpression(f"there is no `{name}` here; {hint}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node.value:
            case ast.Name(id="inputs" | "steps" as kind) if kind not in self.scope.names:
                names = self.scope.inputs if kind == "inputs" else self.scope.steps
                return ast.Name(f"{kind[:-1]}_{_known(node.attr, names, kind)}", ast.Load())
        return ast.Subscript(self.visit(node.value), ast.Constant(node.attr), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function: ast.expr
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS and name not in self.scope.names:
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

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        loops, inner = self._loops(node.generators)
        return type(node)(inner.visit(node.elt), loops)

    visit_GeneratorExp = visit_ListComp

    def _loops(self, generators: list[ast.comprehension]) -> tuple[list[ast.comprehension], _Converter]:
        loops: list[ast.comprehension] = []
        inner = self
        for one in generators:
            source = inner.visit(one.iter)
            scope, targets = inner.scope, list[ast.expr]()
            for name in one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]:
                if one.is_async or not isinstance(name, ast.Name):
                    raise NotAnExpression("the variable of a comprehension is a plain name")
                scope = scope.with_name(name.id, f"local_{name.id}")
                targets.append(ast.Name(f"local_{name.id}", ast.Store()))
            inner = _Converter(scope)
            target = ast.Tuple(targets, ast.Store()) if isinstance(one.target, ast.Tuple) else targets[0]
            loops.append(ast.comprehension(target, source, [inner.visit(test) for test in one.ifs], 0))
        return loops, inner


def _known(name: str, names: frozenset[str], kind: str) -> str:
    if name in names:
        return name
    meant = nearest(name, sorted(names))
    hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(sorted(names)) or 'none'}"
    raise NotAnExpression(f"there is no {'input' if kind == 'inputs' else 'step before this one'} {name!r}; {hint}")


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:60] + "…"
