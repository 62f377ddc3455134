"""The types of one tool as the type checker reads them: its stub once more, as an object that can be called.

Names are made such that nothing of a program can mean them, nor they anything of a program; what a diagnostic says of
them leads back to the tool.
"""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import SchemaReader, properties_of
from codemode_server.catalog.returns import ReturnType, declared_result
from codemode_server.catalog.stubs import Stub
from codemode_server.executions.preflight.places import TypedDictClass, places_of, typed_dicts_in

HEADER = """\
from builtins import bool as _CmBool, dict as _CmDict, float as _CmFloat, int as _CmInt, list as _CmList, str as _CmStr
from collections.abc import Coroutine as _CmCoroutine, Mapping as _CmMapping
from typing import Any as _CmAny, Literal as _CmLiteral, NotRequired as _CmNotRequired, TypedDict as _CmTypedDict
from typing import TypeVar as _CmTypeVar
_CmT = _CmTypeVar("_CmT")
class _CmPending(_CmCoroutine[_CmAny, _CmAny, _CmT]):
    def __getattr__(self, name: _CmStr) -> _CmAny: ...
    def __getitem__(self, key: _CmAny) -> _CmAny: ...
def _cm_pending(value: _CmT) -> _CmPending[_CmT]: ...
def _cm_either(value: _CmAny) -> _CmAny: ...
def _cm_text(*parts: _CmAny) -> _CmStr: ...
_cm_any = _cm_either(0)
class _CmText(_CmStr): ...
class ToolError(RuntimeError):
    message: _CmStr
    server: _CmStr
    tool: _CmStr
    kind: _CmStr
class LimitExceeded(RuntimeError):
    items: _CmAny"""
_PLAIN = {
    **{name: f"_Cm{name.capitalize()}" for name in ("bool", "dict", "float", "int", "list", "str")},
    **{name: f"_Cm{name}" for name in ("Any", "Literal", "NotRequired", "TypedDict")},
    "File": "_CmAny",  # it has many ways, and the guest knows them
}
_OURS = re.compile(r"_Cm[0-9a-f]{10}_(\w+)|_CmText")
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class ResultClass:
    """One TypedDict of a tool's stub."""

    tool: Tool
    name: str
    """As in the stub."""
    keys: tuple[str, ...]
    optional: frozenset[str]
    """Keys that such a dict may lack."""
    place: str
    """Where such dicts are: `what f() gives`, `an item of f()['rows']`."""
    is_closed: bool
    """Whether the upstream declares that there are no other keys."""


@dataclass(frozen=True, slots=True)
class ToolTypes:
    """One tool for the type checker."""

    tool: Tool
    name: str
    """The object that stands for it."""
    source: str
    classes: dict[str, ResultClass]
    """By their names in `source`."""

    @property
    def returned(self) -> ReturnType:
        return self.tool.stub.returned

    def case_of(self, constants: dict[str, Any]) -> str:
        """The method that gives the type for these arguments, or nothing for the tool itself."""
        raw = {parameter.name: parameter.raw_name for parameter in self.tool.parameters}
        for number, case in enumerate(self.returned.by_argument):
            name = raw.get(case.parameter, case.parameter)
            if name in constants and repr(constants[name]) == repr(_literal(case.value)):
                return f"_cm_case{number}"
        return ""


def in_words(text: str) -> str:
    """What a diagnostic says, with the names of types as the stubs have them."""
    return _OURS.sub(lambda found: found[1] or "str", text)


def classes_in(text: str) -> list[str]:
    """The names of our types in a diagnostic."""
    return [found[0] for found in _OURS.finditer(text)]


def types_of(tool: Tool) -> ToolTypes:
    name, source, classes = _written(tool.server, tool.name, tool.stub)
    closed = _closed_keys(tool) if tool.stub.returned.origin == "declared" else set()
    known = {
        key: ResultClass(tool, found.name, keys, found.optional, place, frozenset(keys) in closed)
        for key, (found, place) in classes.items()
        for keys in [tuple(found.types)]
    }
    return ToolTypes(tool, name, source, known)


@lru_cache(maxsize=512)
def _written(server: str, name: str, stub: Stub) -> tuple[str, str, dict[str, tuple[TypedDictClass, str]]]:
    mark = hashlib.sha256(f"{server}\0{name}".encode()).hexdigest()[:10]
    tree = ast.parse(stub.source)
    function = next(node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef))
    records = {found.name: found for node in tree.body for found in typed_dicts_in(node)}
    returned = [ast.parse(str(case.type), mode="eval").body for case in stub.returned.by_argument]
    places = places_of(records, f"{name}()", [*([function.returns] if function.returns else []), *returned])
    classes = {
        f"_Cm{mark}_{plain}": (found, places.get(plain, f"what {name}() gives")) for plain, found in records.items()
    }
    renaming = _Renaming({plain: f"_Cm{mark}_{plain}" for plain in records})
    parts = [ast.unparse(renaming.visit(node)) for node in tree.body if list(typed_dicts_in(node))]
    parts.append(_tool_class(mark, function, stub.returned, renaming))
    parts.append(f"_cm{mark} = _Cm{mark}()")
    return f"_cm{mark}", "\n".join(parts), classes


def _tool_class(mark: str, function: ast.FunctionDef, returned: ReturnType, renaming: _Renaming) -> str:
    arguments = function.args
    for argument in (*arguments.args, *([arguments.kwarg] if arguments.kwarg else ())):
        argument.annotation = renaming.visit(argument.annotation) if argument.annotation else None
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    taken = f", {ast.unparse(arguments)}" if arguments.args or arguments.kwarg else ""
    whole = _result(function.returns, renaming)
    lines = [f"class _Cm{mark}:", f"    def __call__(_cm_self, /{taken}) -> {whole}: ..."]
    for number, case in enumerate(returned.by_argument):
        result = _result(ast.parse(str(case.type), mode="eval").body, renaming)
        lines.append(f"    def _cm_case{number}(_cm_self, /{taken}) -> {result}: ...")
    if arguments.args and arguments.args[0].annotation is not None:
        first = ast.unparse(arguments.args[0].annotation)
        lines.append(f"    def _cm_one(_cm_self, first: {first} | _CmMapping[_CmAny, _CmAny], /) -> {whole}: ...")
    lines.append(f"    def _cm_loose(_cm_self, /, *args: _CmAny, **kwargs: _CmAny) -> {whole}: ...")
    return "\n".join([*lines, *(f"    {name}: _CmAny" for name in {"map", "pages", "raw", "begin", function.name})])


def _result(annotation: ast.expr | None, renaming: _Renaming) -> str:
    """The type of a result; text has a type of its own, to distinguish it from other text."""
    if annotation is None:
        return "_CmAny"
    members = _members(annotation)
    return " | ".join(
        "_CmText" if isinstance(member, ast.Name) and member.id == "str" else ast.unparse(renaming.visit(member))
        for member in members
    )


def _members(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_members(annotation.left), *_members(annotation.right)]
    return [annotation]


class _Renaming(ast.NodeTransformer):
    """Gives classes of a stub the names that they have here, and typing's words theirs."""

    def __init__(self, classes: dict[str, str]) -> None:
        self._names = _PLAIN | classes

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names[node.name]
        node.bases = [self.visit(base) for base in node.bases]
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                field.annotation = self.visit(field.annotation)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.targets = [self.visit(target) for target in node.targets]
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[1], ast.Dict):
            call.func = self.visit(call.func)
            call.args[0] = ast.Constant(self._names[str(call.args[0].value)])
            call.args[1].values = [self.visit(value) for value in call.args[1].values]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Literal":
            node.value = self.visit(node.value)  # what it holds are values, no types
            return node
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str):
            return node
        return ast.Constant(ast.unparse(self.visit(ast.parse(node.value, mode="eval").body)))  # a type to come


@lru_cache(maxsize=512)
def _closed_keys(tool: Tool) -> set[frozenset[str]]:
    """The keys of each object of the declared result that has no others, and that no open one has as well."""
    schema, _ = declared_result(tool.definition)
    reader = SchemaReader(tool.definition.output_schema)
    closed: set[frozenset[str]] = set()
    opened: set[frozenset[str]] = set()
    waiting: list[tuple[object, int]] = [(schema, 0)]
    seen = 0
    while waiting and seen < 2_000:
        found, depth = waiting.pop()
        seen += 1
        flat = reader.flat(found)
        if keys := frozenset(properties_of(flat)):
            is_closed = flat.get("additionalProperties") is False and "patternProperties" not in flat
            is_simple = not any(word in flat for word in ("anyOf", "oneOf", "if", "not"))
            (closed if is_closed and is_simple else opened).add(keys)
        if depth < _MAX_DEPTH:
            parts = [*properties_of(flat).values(), flat.get("items"), flat.get("additionalProperties")]
            for word in ("anyOf", "oneOf", "prefixItems"):
                parts += flat[word] if isinstance(flat.get(word), list) else []
            waiting += [(part, depth + 1) for part in parts if isinstance(part, dict)]
    return closed - opened


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text) if text else ...
    except (ValueError, SyntaxError):
        return ...
