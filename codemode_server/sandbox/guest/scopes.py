"""The scopes of a program's text: whose each name is, and under which names its functions get their arguments; pure."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any, NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
MAX_ALIKE = 8
"""Functions that are looked at of those with one name, or in one call: the work stays linear."""
_NO_NAMES: frozenset[str] = frozenset()


class Place(NamedTuple):
    scope: ast.AST | None
    """The innermost function or class; None at top level."""
    is_deferred: bool
    """True if a lambda or a generator expression runs it later: an `await` there would change what it gives."""


class _Parameters(NamedTuple):
    """Names within a function of what it is given."""

    own: dict[int | str, str]
    """By position and by name."""
    rest: str
    """`args` of `*args`, which takes the other positions; empty if it has none."""
    named: str
    """`kwargs` of `**kwargs`, which takes the other names."""

    def taking(self, key: int | str | None) -> frozenset[str]:
        """The name that takes a position or name; all for None."""
        if key is None:
            return frozenset(filter(None, (*self.own.values(), self.rest, self.named)))
        name = self.own.get(key, self.rest if isinstance(key, int) else self.named)
        return frozenset([name]) if name else _NO_NAMES


class Scopes:
    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(ast.walk(tree))
        self._parameters: dict[str, list[_Parameters]] = {}
        self._arguments: dict[ast.Call, tuple[dict[ast.AST, int], list[str]]] = {}
        self.functions: dict[str, list[ast.AST]] = {}
        for node in self.nodes:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self.functions.setdefault(name, []).append(node)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                    self.functions.setdefault(name, []).append(function)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def scopes(self) -> dict[ast.AST, Place]:
        """By node; decorators and defaults are outside of their function."""
        scopes: dict[ast.AST, Place] = {self.nodes[0]: Place(None, is_deferred=False)}
        for parent in self.nodes:  # each before its children
            place = scopes[parent]
            for child in ast.iter_child_nodes(parent):
                is_body = isinstance(child, ast.stmt) or child is getattr(parent, "body", None)
                scope = parent if is_body and isinstance(parent, SCOPES) else place.scope
                is_deferred = place.is_deferred or isinstance(parent, (ast.GeneratorExp, ast.Lambda))
                scopes[child] = Place(scope, is_deferred=is_deferred and not isinstance(child, ast.stmt))
        return scopes

    def _parameters_of(self, name: str) -> list[_Parameters]:
        """Parameters of each function of this name, and fields of each class."""
        if name not in self._parameters:
            self._parameters[name] = [self._taken_by(each) for each in self.functions.get(name, [])[-MAX_ALIKE:]]
        return self._parameters[name]

    def _taken_by(self, function: Any) -> _Parameters:
        maker: Any = _maker(function)
        if isinstance(maker, ast.ClassDef):
            fields = [last_name(part.target) for part in maker.body if isinstance(part, ast.AnnAssign)]
            return _Parameters({key: f".{name}" for at, name in enumerate(fields) for key in (at, name)}, "", "")
        given: ast.arguments = maker.args
        is_method = isinstance(self.scopes[maker].scope, ast.ClassDef)
        is_static = any(last_name(each) == "staticmethod" for each in getattr(maker, "decorator_list", ()))
        own = [one.arg for one in (*given.posonlyargs, *given.args)][is_method and not is_static :]
        by_name = (*own, *(one.arg for one in given.kwonlyargs))
        keys: list[tuple[int | str, str]] = [*enumerate(own), *zip(by_name, by_name, strict=True)]
        rest, named = (self._in_scope(one.arg, maker) if one else "" for one in (given.vararg, given.kwarg))
        return _Parameters({key: self._in_scope(each, maker) for key, each in keys}, rest, named)

    def names_within(self, call: ast.Call, node: ast.AST) -> frozenset[str]:
        """Names under which functions of the program get an argument: the one called, and those beside the argument."""
        if call not in self._arguments:
            is_starred = any(isinstance(each, ast.Starred) for each in call.args)
            positions: dict[ast.AST, int] = {} if is_starred else {each: at for at, each in enumerate(call.args)}
            passed = [last_name(each) for each in call.args if last_name(each) in self.functions]
            self._arguments[call] = positions, passed[:MAX_ALIKE]
        positions, passed = self._arguments[call]
        key = node.arg if isinstance(node, ast.keyword) else positions.get(node)
        names = _NO_NAMES.union(*(each.taking(key) for each in self._parameters_of(last_name(call.func))))
        if passed and last_name(node) not in self.functions:  # `map(safe, calls)`
            names = names.union(*(each.taking(None) for name in passed for each in self._parameters_of(name)))
        return names

    def name_of(self, node: ast.AST) -> str:
        """The name of a variable in its function, of an attribute (`.name`), or of what holds an item."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Attribute):
            return f".{node.attr}"
        return self._in_scope(node.id, self.scopes[node].scope) if isinstance(node, ast.Name) else ""

    def _in_scope(self, name: str, scope: ast.AST | None) -> str:
        while scope is not None and name not in self._bound.get(scope, ()):
            scope = self.scopes[scope].scope
        return name if scope is None else f"{name}@{id(scope)}"

    @cached_property
    def _bound(self) -> dict[ast.AST, set[str]]:
        bound: dict[ast.AST, set[str]] = {}
        shared: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()) if (scope := self.scopes[node].scope) is not None:
                    bound.setdefault(scope, set()).add(name)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    bound.setdefault(node, set()).update(_parameter_names(node))
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    shared.update(names)
        return {scope: names - shared for scope, names in bound.items()}


def _maker(function: ast.AST) -> ast.AST:
    """The function that takes the arguments: of a class its `__init__` or `__call__`, if it has one."""
    parts = function.body if isinstance(function, ast.ClassDef) else ()
    makers = [part for part in parts if isinstance(part, FUNCTIONS) and part.name in ("__init__", "__call__")]
    return makers[0] if makers else function


def _parameter_names(function: Any) -> list[str]:
    given: ast.arguments = function.args
    more = [one for one in (given.vararg, *given.kwonlyargs, given.kwarg) if one]
    return [one.arg for one in (*given.posonlyargs, *given.args, *more)]


def root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """`b` of `b`, `a.b` and `x().b`; else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
