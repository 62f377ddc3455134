"""Each call of a tool in a program's text, bound by the rules that the guest has too (`sandbox/guest/binding.py`).

Where the text does not show what is given (`*rows`, `**filters`, one variable that may be a dict), nothing is said.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.privacy_tokens import holds_token
from codemode_server.sandbox.guest.binding import (
    Signature,
    binding_of,
    missing_arguments,
    type_takes_objects,
)

_NOT_OBJECTS = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.SetComp, ast.GeneratorExp)
NOT_CONSTANT: Any = object()


@dataclass(slots=True)
class Bound:
    """The arguments of a call, as far as the text shows them."""

    tool: Tool
    call: ast.Call
    given: dict[str, ast.expr] = field(default_factory=dict)
    """By Python name."""
    is_whole: bool = True
    """True if `given` has all arguments."""
    problem: str = ""
    """Why the guest refuses it; empty if it does not."""

    @property
    def constants(self) -> dict[str, Any]:
        """The arguments whose value is written out, by raw name."""
        raw = {parameter.name: parameter.raw_name for parameter in self.tool.parameters}
        values = {raw.get(name, name): constant_of(node) for name, node in self.given.items()}
        return {name: value for name, value in values.items() if value is not NOT_CONSTANT}


@lru_cache(maxsize=512)
def signature_of(tool: Tool) -> Signature:
    function = next(node for node in reversed(ast.parse(tool.stub.source).body) if isinstance(node, ast.FunctionDef))
    parameters = function.args.args
    names = tuple(parameter.arg for parameter in parameters)
    annotations = {parameter.arg: parameter.annotation for parameter in parameters}

    def takes_objects(parameter: str) -> bool:
        annotation = annotations.get(parameter)
        return annotation is None or type_takes_objects(annotation, tool.stub.classes.__contains__)

    required = names[: len(names) - len(function.args.defaults)]
    python_names = {parameter.raw_name: parameter.name for parameter in tool.parameters}
    return Signature(tool.name, names, required, function.args.kwarg is not None, takes_objects, python_names)


def bind(tool: Tool, call: ast.Call) -> Bound:
    """Binds the arguments of a call to the tool's parameters."""
    bound = Bound(tool, call)
    signature = signature_of(tool)
    keywords, args = _keywords(bound), call.args
    may_be_all = len(args) == 1 and not call.keywords and not isinstance(args[0], _NOT_OBJECTS)
    if any(isinstance(node, ast.Starred) for node in args) or (may_be_all and _pairs(args[0]) is None):
        bound.is_whole, args = False, []
    required = signature.required if bound.is_whole else ()
    found = binding_of(signature, args, keywords, required=required, items_of=_pairs, is_given=_is_given)
    bound.given, bound.problem = found.given, found.problem
    if not bound.problem and required:
        bound.problem = missing_arguments(signature, bound.given)
    return bound


def _keywords(bound: Bound) -> list[tuple[str, ast.expr]]:
    """The keywords of a call, with what `**` adds to them as far as it is written out."""
    found: list[tuple[str, ast.expr]] = []
    for keyword in bound.call.keywords:
        pairs = [(keyword.arg, keyword.value)] if keyword.arg is not None else _pairs(keyword.value)
        bound.is_whole = bound.is_whole and pairs is not None
        found += pairs or []
    return found


def _pairs(node: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """The items of a dict that is written out with constant keys."""
    if not isinstance(node, ast.Dict):
        return None
    pairs: dict[str, ast.expr] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return None
        pairs[key.value] = value
    return list(pairs.items())


def constant_of(node: ast.expr, depth: int = 0) -> Any:
    """The value that an expression writes out, as JSON has it, or `NOT_CONSTANT`."""
    if depth > 20:
        return NOT_CONSTANT
    match node:
        case ast.Constant(value=str() as text) if holds_token(text):  # what it stands for is sent
            return NOT_CONSTANT
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=members) | ast.Tuple(elts=members):
            values = [constant_of(member, depth + 1) for member in members]
            return NOT_CONSTANT if any(value is NOT_CONSTANT for value in values) else values
        case ast.Dict():
            pairs = _pairs(node)
            if pairs is None:
                return NOT_CONSTANT
            found = {key: constant_of(value, depth + 1) for key, value in pairs}
            return NOT_CONSTANT if any(value is NOT_CONSTANT for value in found.values()) else found
        case _:
            return NOT_CONSTANT


def _is_given(value: ast.expr) -> bool:
    return not isinstance(value, ast.Constant) or value.value is not ...
