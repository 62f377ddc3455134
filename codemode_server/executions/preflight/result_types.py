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
from codemode_server.catalog.json_schema import SchemaReader, properties_of
from codemode_server.catalog.returns import declared_result
from codemode_server.domain.calls import ResultKey
from codemode_server.executions.preflight.findings import Finding, Findings
from codemode_server.sandbox.guest.await_rule import Use
from codemode_server.sandbox.guest.scopes import last_name
from codemode_server.sandbox.guest.similar_names import similar_name

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
        only = self._only
        return replace(self, text=only[len(container) : -1]) if only.startswith(container) else None

    @property
    def result_class(self) -> _Class | None:
        return _classes_of(self.tool).get(self._only)

    @property
    def _only(self) -> str:
        """The only member beside None; empty if there are several, of which any may come at run time."""
        others = [it for it in _members(self.text) if it != "None"]
        return others[0] if len(others) == 1 else ""


@dataclass(frozen=True, slots=True)
class _Class:
    """One TypedDict of a tool's stub."""

    tool: Tool
    name: str
    fields: Mapping[str, str]
    """The type of each key."""
    optional: frozenset[str]
    """Keys that such a dict may lack."""
    is_closed: bool
    """True if the upstream declares that there are no other keys."""

    def described(self, subject: str = "It") -> str:
        marked = [f"{key}?" if key in self.optional else key for key in list(self.fields)[:_MAX_KEYS]]
        more = f", … ({len(self.fields) - _MAX_KEYS} more)" if len(self.fields) > _MAX_KEYS else ""
        returned = self.tool.stub.returned
        calls = f", as observed in {returned.calls} calls" if returned.origin == "observed" else ""
        return f"{subject} has {', '.join(marked)}{more} (from {self.tool.name}(){calls})."


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
        self._calls = {bound.call: _Type(bound.tool, _stub(bound.tool.stub.source)[0]) for bound in findings.calls}
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
            found = None
            match node:
                case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
                    if name not in _BESIDE and (known := self._type_of(value)) is not None:
                        found = self._unknown_key(node, name, known)
                case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                    if name not in _BESIDE and (known := self._type_of(value)) is not None:
                        found = self._unknown_attribute(node, name, known)
            if found is not None:
                yield found

    def _unknown_key(self, node: ast.expr, key: str, known: _Type) -> Finding | None:
        if (items := known.part("list[")) is not None and (one := items.result_class) is not None:
            message = f"a list can't be indexed by {key!r}; {one.described('an item')}"
            return self._own.finding(node, message, is_sure=False)
        found = known.result_class
        if found is None or key in found.fields or key in self._other_texts:
            return None
        meant, returned = similar_name(key, list(found.fields)), found.tool.stub.returned
        if returned.origin == "observed" and found.name in returned.open_classes and not meant:
            return None  # the keys of such a dict depend on the arguments
        end = f' - did you mean "{meant}"?' if meant else "."
        message = f'Unknown key "{key}" for TypedDict `{found.name}`{end} {found.described()}'
        is_sure = found.is_closed and not known.is_nullable and not self._adds_any_key
        return self._own.finding(node, message, ResultKey(found.tool.server, found.tool.name, key), is_sure=is_sure)

    def _unknown_attribute(self, node: ast.expr, name: str, known: _Type) -> Finding | None:
        found = known.result_class
        if found is None or hasattr(dict, name):
            return None
        write = f"; write [{name!r}]" if name in found.fields else ""
        message = f"Object of type `{found.name}` has no attribute `{name}`{write}. {found.described()}"
        return self._own.finding(node, message, is_sure=found.tool.stub.returned.origin == "declared")

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
            case ast.Await(value=ast.Call(func=function, args=[ast.Starred(value=several)])) if (
                last_name(function) == "gather"
            ):
                return self._type_of_list(several)
            case ast.Call() if node in self._calls:
                return self._calls[node] if self._own.call_uses.use_of(node) is Use.VALUE else None
            case ast.Call(func=ast.Name(id=name), args=[items]) if name in _SAME_ITEMS:
                return self._type_of(items)
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
        is_call = isinstance(node.elt, ast.Call) and node.elt in self._calls
        item = self._calls[node.elt] if is_call else self._type_of(node.elt)  # type: ignore[index]
        return None if item is None else replace(item, text=f"list[{item.text}]")

    def _type_of_name(self, name: str) -> _Type | None:
        bindings = self._bindings.get(name, [])
        if len(bindings) != len(self._own.names.bound.get(name, [])):
            return None
        found = {self._type_of_binding(*it) for it in bindings}
        return found.pop() if len(found) == 1 else None

    def _type_of_binding(self, value: ast.expr, is_item: bool) -> _Type | None:
        known = self._type_of(value)
        return known.part("list[") if known is not None and is_item else known

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
        if (found := held.result_class) is not None and index.value in found.fields:
            return replace(held, text=found.fields[index.value])
        return held.part("dict[str, ")
    return held if isinstance(index, ast.Slice) else held.part("list[") or held.part("dict[str, ")


@lru_cache(maxsize=2_000)
def _members(text: str) -> tuple[str, ...]:
    """The members of a union."""
    waiting, found = [ast.parse(text, mode="eval").body], list[str]()
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, right=right):
                waiting += [right, left]
            case ast.Subscript(value=ast.Name(id="NotRequired"), slice=inner):
                waiting.append(inner)
            case other:
                found.append(ast.unparse(other))
    return tuple(found)


@lru_cache(maxsize=512)
def _stub(source: str) -> tuple[str, dict[str, tuple[dict[str, str], frozenset[str]]]]:
    """The type of the result, and the keys of each TypedDict with their types, and those that it may lack."""
    returned, found = "None", {}
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(returns=ast.expr() as kind):
                returned = ast.unparse(kind)
                continue
            case ast.ClassDef(name=name, keywords=words, body=body):
                fields = [it for it in body if isinstance(it, ast.AnnAssign)]
                types = {it.target.id: ast.unparse(it.annotation) for it in fields if isinstance(it.target, ast.Name)}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, ast.Dict() as held], keywords=words)):
                pairs = zip(held.keys, held.values, strict=True)
                types = {str(key.value): ast.unparse(kind) for key, kind in pairs if isinstance(key, ast.Constant)}
            case _:
                continue
        is_partial = any(word.arg == "total" for word in words)
        found[name] = types, frozenset(key for key, kind in types.items() if is_partial or kind.startswith("NotReq"))
    return returned, found


@lru_cache(maxsize=512)
def _classes_of(tool: Tool) -> dict[str, _Class]:
    closed = _closed_keys(tool) if tool.stub.returned.origin == "declared" else set()
    return {
        name: _Class(tool, name, types, optional, frozenset(types) in closed)
        for name, (types, optional) in _stub(tool.stub.source)[1].items()
    }


def _closed_keys(tool: Tool) -> set[frozenset[str]]:
    """The keys of each object of the declared result that has no others, and that no open one has as well."""
    schema, _ = declared_result(tool.definition)
    reader = SchemaReader(tool.definition.output_schema)
    closed: set[frozenset[str]] = set()
    opened: set[frozenset[str]] = set()
    waiting: list[tuple[object, int]] = [(schema, 0)]
    for _ in range(2_000):
        if not waiting:
            break
        found, depth = waiting.pop()
        flat = reader.flat(found)
        if keys := frozenset(properties_of(flat)):
            is_open = any(word in flat for word in ("anyOf", "oneOf", "if", "not", "patternProperties"))
            (closed if flat.get("additionalProperties") is False and not is_open else opened).add(keys)
        parts = [*properties_of(flat).values(), flat.get("items"), flat.get("additionalProperties")]
        for word in ("anyOf", "oneOf", "prefixItems"):
            parts += flat[word] if isinstance(flat.get(word), list) else []
        waiting += [(part, depth + 1) for part in parts if isinstance(part, dict) and depth < 12]
    return closed - opened
