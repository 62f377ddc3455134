"""Each call of a tool as the guest binds it: by keyword, by position, or with one dict that is all the arguments.

Says what the guest or the gateway would surely refuse, in the guest's words (`sandbox/guest/stubs.py`). Where it is not
to be seen what is given (`*rows`, `**filters`, one variable that may be a dict), it is silent.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.sandbox.guest import advice
from codemode_server.sandbox.guest.advice import MAP_COLLECTS_ERRORS, MAP_TAKES_A_LIST
from codemode_server.sandbox.guest.similar_names import similar_name

_TAKES_OBJECTS = frozenset({"Any", "dict", "Dict", "object", "Mapping", "MutableMapping"})
_ALTERNATIVES = frozenset({"Optional", "Union", "Annotated", "NotRequired", "Required"})
_NOT_OBJECTS = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.SetComp, ast.GeneratorExp)
NOT_CONSTANT: Any = object()


@dataclass(frozen=True, slots=True)
class Signature:
    """How a tool's stub is called."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    is_open: bool
    """Whether it takes any keywords."""
    first_takes_objects: bool


@dataclass(slots=True)
class Bound:
    """A call, as far as it is to be seen."""

    tool: Tool
    call: ast.Call
    given: dict[str, ast.expr] = field(default_factory=dict)
    """By Python name."""
    is_whole: bool = True
    """Whether all that is given is in `given`."""
    problem: str = ""
    """Why the guest refuses it; empty if it does not."""

    @property
    def constants(self) -> dict[str, Any]:
        """The arguments whose value is written out, by raw name."""
        raw = {parameter.name: parameter.raw_name for parameter in self.tool.parameters}
        values = {raw.get(name, name): constant_of(node) for name, node in self.given.items()}
        return {name: value for name, value in values.items() if value is not NOT_CONSTANT}


def signature_of(tool: Tool) -> Signature:
    return _signature(tool.stub.source)


@lru_cache(maxsize=512)
def _signature(source: str) -> Signature:
    tree = ast.parse(source)
    function = next(node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef))
    arguments = function.args.args
    optional = len(function.args.defaults)
    names = tuple(argument.arg for argument in arguments)
    first = arguments[0].annotation if arguments else None
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return Signature(
        names,
        names[: len(names) - optional],
        function.args.kwarg is not None,
        first is None or _takes_objects(first, classes),
    )


def bind_form(tool: Tool, form: str, call: ast.Call) -> Bound:
    """The same of `tool.raw(…)`, of `tool.pages(…)`, which adds arguments, of `tool.map(…)`, whose items are some."""
    if form == "raw":
        return bind(tool, call)
    if form == "map":
        if problem := _refused_items(tool, call):
            bound = Bound(tool, call)
            bound.problem = problem
            return bound
        common = [keyword for keyword in call.keywords if keyword.arg != "concurrency"]
        call = ast.copy_location(ast.Call(call.func, [], common), call)
        if any(keyword.arg == "return_exceptions" for keyword in common) and not _takes(tool, "return_exceptions"):
            bound = Bound(tool, call)
            bound.problem = f"{tool.name}{MAP_COLLECTS_ERRORS}"
            return bound
        return bind(tool, call, needs_all=False, form=".map")
    return bind(tool, call, needs_all=False)


def _refused_items(tool: Tool, call: ast.Call) -> str:
    """Why `.map()` refuses what it is given as items; empty if it does not, or that is not to be seen."""
    if not call.args:
        return f"{tool.name}{MAP_TAKES_A_LIST}; the list is the first argument, without a keyword"
    items = call.args[0]
    if isinstance(items, (ast.Constant, ast.JoinedStr, ast.Dict, ast.DictComp)):
        what = "a dict" if isinstance(items, (ast.Dict, ast.DictComp)) else "a single value"
        return f"{tool.name}{MAP_TAKES_A_LIST}, not {what}"
    return ""


def bind(tool: Tool, call: ast.Call, *, needs_all: bool = True, form: str = "") -> Bound:
    """What a call gives, by the rules of the guest's `Stub._bind`."""
    bound = Bound(tool, call)
    signature = signature_of(tool)
    positional, keywords = _given(bound, signature)
    if len(positional) > len(signature.names) and not any(isinstance(node, ast.Starred) for node in positional):
        count = len(signature.names)
        return _refused(bound, f"takes {count} argument{'s' * (count != 1)}, not {len(positional)}")
    if any(isinstance(node, ast.Starred) for node in positional):
        bound.is_whole = False
    else:
        bound.given = dict(zip(signature.names, positional, strict=False))
    raw = {parameter.raw_name: parameter.name for parameter in tool.parameters if parameter.raw_name != parameter.name}
    for key, value in keywords:
        name = raw.get(key, key)
        if name in bound.given:
            return _refused(bound, f"got argument {name!r} twice")
        if name not in signature.names and not signature.is_open:
            given = {*bound.given, *(raw.get(other, other) for other, _ in keywords)}
            free = [known for known in signature.names if known not in given]
            meant = similar_name(key, free, preferred=[known for known in free if known in signature.required])
            return _refused(bound, f"has no argument {key!r}" + (f"; did you mean {meant!r}?" if meant else ""), form)
        bound.given[name] = value
    bound.given = {name: value for name, value in bound.given.items() if not _is_not_given(value)}
    missing = [name for name in signature.required if name not in bound.given]
    if missing and bound.is_whole and needs_all:
        return _refused(bound, f"is missing {', '.join(map(repr, missing))}")
    return bound


def _given(bound: Bound, signature: Signature) -> tuple[list[ast.expr], list[tuple[str, ast.expr]]]:
    """The positional arguments and the keywords, a dict of all arguments taken apart."""
    call = bound.call
    keywords = [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
    for spread in (keyword.value for keyword in call.keywords if keyword.arg is None):
        pairs = _pairs(spread)
        bound.is_whole = bound.is_whole and pairs is not None
        keywords += pairs or []
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], (ast.Starred, *_NOT_OBJECTS)):
        return list(call.args), keywords
    pairs = _pairs(call.args[0])
    if pairs is None:
        bound.is_whole = False
        return [], []
    known = {*signature.names, *(parameter.raw_name for parameter in bound.tool.parameters)}
    if signature.names and signature.first_takes_objects and not (pairs and all(key in known for key, _ in pairs)):
        return list(call.args), keywords
    return [], pairs


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


def _refused(bound: Bound, why: str, form: str = "") -> Bound:
    end = "" if why.endswith("?") else "."
    bound.problem = f"{bound.tool.name}{form}() {why}{end} {usage(bound.tool, form)}"
    return bound


def _takes(tool: Tool, name: str) -> bool:
    signature = signature_of(tool)
    return signature.is_open or name in signature.names


def usage(tool: Tool, form: str = "") -> str:
    """What the tool takes, or a form of it, as the guest says it."""
    signature = signature_of(tool)
    return advice.usage(signature.names, signature.required, is_open=signature.is_open, form=form)


def constant_of(node: ast.expr, depth: int = 0) -> Any:
    """The value that an expression writes out, as JSON has it, or `NOT_CONSTANT`."""
    if depth > 20:
        return NOT_CONSTANT
    match node:
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


def _is_not_given(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is ...


def _takes_objects(node: ast.expr, classes: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return _takes_objects(node.left, classes) or _takes_objects(node.right, classes)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _takes_objects(ast.parse(node.value, mode="eval").body, classes)
    if isinstance(node, ast.Subscript):
        name = _plain_name(node.value)
        if name in _ALTERNATIVES:
            members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return any(_takes_objects(member, classes) for member in members)
        return name in _TAKES_OBJECTS
    return _plain_name(node) in _TAKES_OBJECTS | classes


def _plain_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
