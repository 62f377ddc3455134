"""Keys and attributes that the results of tools lack, by the types in the tools' stubs.

A name has a type if all that binds it in the program has that type; an expression that is not listed here has none. The
rest of the program is ordinary Python without types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.calls import ResultKey
from codemode_server.executions.preflight.findings import Finding, Findings
from codemode_server.sandbox.guest.await_rule import Use
from codemode_server.sandbox.guest.scopes import last_name
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.support.text import counted

_BESIDE = frozenset({"files", "text"})
"""Attributes and keys of what a tool sent beside its result (`sandbox/guest/files.py`); no type declares them."""
_MAX_KEYS = 12
_MAX_FINDINGS = 100
_SAME_ITEMS = ("list", "sorted", "reversed", "tuple", "iter")


@dataclass(frozen=True, slots=True)
class _Type:
    """A type as the tool's stub writes it, such as `list[Issue] | None`."""

    tool: Tool
    text: str

    @property
    def is_nullable(self) -> bool:
        return "None" in _members(self.text)

    def part(self, container: str) -> _Type | None:
        """The type of the parts of a `list[…]` or `dict[str, …]`; None for any other type."""
        return replace(self, text=self.name[len(container) : -1]) if self.name.startswith(container) else None

    @property
    def name(self) -> str:
        """The only member beside None; empty if there are several, of which any may come at run time."""
        others = [it for it in _members(self.text) if it != "None"]
        return others[0] if len(others) == 1 else ""

    @property
    def fields(self) -> Mapping[str, str]:
        """The types of the keys of a TypedDict, with `?` behind a key that may be missing; empty for any other type."""
        return dict(self.tool.stub.classes.get(self.name, ()))

    def key(self, name: str) -> _Type | None:
        fields = self.fields
        text = fields.get(name) or fields.get(f"{name}?")
        return None if text is None else replace(self, text=text)

    def described(self, subject: str = "It") -> str:
        keys, returned = list(self.fields), self.tool.stub.returned
        more = f", … ({len(keys) - _MAX_KEYS} more)" if len(keys) > _MAX_KEYS else ""
        calls = f", as observed in {counted(returned.calls, 'call')}" if returned.origin == "observed" else ""
        return f"{subject} has {', '.join(keys[:_MAX_KEYS])}{more} (from {self.tool.name}(){calls})."


def result_findings(own: Findings) -> list[Finding]:
    """What the program does with results that they do not allow."""
    try:
        return list(islice(_ResultTypes(own).findings(), _MAX_FINDINGS))
    except (RecursionError, SyntaxError, MemoryError):  # nested so deep, no program is written by hand
        return []


class _ResultTypes:
    """The types of one program's expressions that come from results of tools."""

    def __init__(self, findings: Findings) -> None:
        self._own = findings
        self._nodes = findings.reading.nodes
        self._calls: dict[ast.expr, _Type] = {
            bound.call: _Type(bound.tool, str(bound.tool.stub.returned.type)) for bound in findings.calls
        }
        self._types: dict[ast.expr | str, _Type | None] = {}
        """By expression, or by name."""
        self._bindings: dict[str, list[tuple[ast.expr, bool]]] = {}
        """What binds each name: the value, or (True) what is iterated over."""
        for node in self._nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    self._bindings.setdefault(name, []).append((value, False))
                case (
                    ast.For(target=ast.Name(id=name), iter=value)
                    | ast.AsyncFor(target=ast.Name(id=name), iter=value)
                    | ast.comprehension(target=ast.Name(id=name), iter=value)
                ):
                    self._bindings.setdefault(name, []).append((value, True))

    def findings(self) -> Iterator[Finding]:
        for node in self._nodes:
            finding = None
            match node:
                case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                    if name not in _BESIDE and (held := self._type_of(value)) is not None:
                        finding = self._unknown_key(node, name, held)
                case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                    if name not in _BESIDE and (held := self._type_of(value)) is not None:
                        finding = self._unknown_attribute(node, name, held)
            if finding is not None:
                yield finding

    def _unknown_key(self, node: ast.expr, key: str, held: _Type) -> Finding | None:
        if (item := held.part("list[")) is not None and item.fields:
            message = f"a list can't be indexed by {key!r}; {item.described('an item')}"
            return self._own.finding(node, message, is_sure=False)
        if not held.fields or held.key(key) is not None or key in self._other_texts:
            return None
        meant, returned = similar_name(key, [it.removesuffix("?") for it in held.fields]), held.tool.stub.returned
        if returned.origin == "observed" and held.name in returned.open_classes and not meant:
            return None  # the keys of such a dict depend on the arguments
        end = f' - did you mean "{meant}"?' if meant else "."
        message = f'Unknown key "{key}" for TypedDict `{held.name}`{end} {held.described()}'
        is_sure = held.name in returned.closed_classes and not held.is_nullable and not self._adds_any_key
        return self._own.finding(node, message, ResultKey(held.tool.server, held.tool.name, key), is_sure=is_sure)

    def _unknown_attribute(self, node: ast.expr, name: str, held: _Type) -> Finding | None:
        if not held.fields or hasattr(dict, name):
            return None
        write = f"; write [{name!r}]" if held.key(name) is not None else ""
        message = f"Object of type `{held.name}` has no attribute `{name}`{write}. {held.described()}"
        return self._own.finding(node, message, is_sure=held.tool.stub.returned.origin == "declared")

    def _type_of(self, node: ast.expr) -> _Type | None:
        key = node.id if isinstance(node, ast.Name) else node
        if key not in self._types:
            self._types[key] = None  # for what depends on itself
            self._types[key] = self._inferred(node)
        return self._types[key]

    def _inferred(self, node: ast.expr) -> _Type | None:
        match node:
            case ast.Name(id=name):
                return self._type_of_name(name)
            case ast.Await(value=ast.Call() as call) if call in self._calls:
                return self._calls[call]
            case ast.Await(value=ast.Call(func=function, args=[ast.Starred(value=several)], keywords=[])) if (
                last_name(function) == "gather" and "gather" not in self._own.call_uses.functions
            ):
                return self._type_of_list(several)
            case ast.Call() if node in self._calls:
                return self._calls[node] if self._own.call_uses.use_of(node) is Use.VALUE else None
            case ast.Call(func=ast.Name(id=name), args=[items]) if (
                name in _SAME_ITEMS and name not in self._own.names.bound
            ):
                held = self._type_of(items)
                return held if held is not None and held.part("list[") is not None else None
            case ast.Call(func=ast.Attribute(value=value, attr="values"), args=[]):
                held = self._type_of(value)
                values = held.part("dict[str, ") if held is not None else None
                return None if values is None else replace(values, text=f"list[{values.text}]")
            case ast.ListComp() | ast.GeneratorExp():
                return self._type_of_list(node)
            case ast.Subscript(value=value, slice=index):
                held = self._type_of(value)
                return None if held is None else _item_of(held, index)
        return None

    def _type_of_list(self, node: ast.expr) -> _Type | None:
        """The type of a list of the items that an expression lists, of calls that are awaited too."""
        if not isinstance(node, ast.ListComp | ast.GeneratorExp):
            return None
        item = self._calls.get(node.elt) or self._type_of(node.elt)
        return None if item is None else replace(item, text=f"list[{item.text}]")

    def _type_of_name(self, name: str) -> _Type | None:
        bindings = self._bindings.get(name, [])
        if len(bindings) != len(self._own.names.bound.get(name, [])):
            return None
        types = {self._type_of_binding(*binding) for binding in bindings}
        return types.pop() if len(types) == 1 else None

    def _type_of_binding(self, value: ast.expr, is_item: bool) -> _Type | None:
        held = self._type_of(value)
        return held.part("list[") if held is not None and is_item else held

    @cached_property
    def _other_texts(self) -> set[str]:
        """Names that the program uses in another way than `x["name"]`: it may add such keys, or ask for them first."""
        parents = self._own.reading.parents
        texts = {
            node.value
            for node in self._nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if not (isinstance(parent := parents[node], ast.Subscript) and isinstance(parent.ctx, ast.Load))
        }
        return texts | {node.arg for node in self._nodes if isinstance(node, ast.keyword) and node.arg}

    @cached_property
    def _adds_any_key(self) -> bool:
        """True if the program may add keys that are not written out."""
        for node in self._nodes:
            match node:
                case ast.Subscript(ctx=ast.Store(), slice=key) if not isinstance(key, ast.Constant):
                    return True
                case ast.AugAssign(op=ast.BitOr()) | ast.Call(func=ast.Attribute(attr="update" | "setdefault")):
                    return True
        return False


def _item_of(held: _Type, index: ast.expr) -> _Type | None:
    if isinstance(index, ast.Constant) and isinstance(index.value, str):
        return held.key(index.value) or held.part("dict[str, ")
    return held if isinstance(index, ast.Slice) else held.part("list[") or held.part("dict[str, ")


@lru_cache(maxsize=2_000)
def _members(text: str) -> tuple[str, ...]:
    waiting, members = [ast.parse(text, mode="eval").body], list[str]()
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, right=right):
                waiting += [right, left]
            case ast.Subscript(value=ast.Name(id="NotRequired"), slice=inner):
                waiting.append(inner)
            case other:
                members.append(ast.unparse(other))
    return tuple(members)
