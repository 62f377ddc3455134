"""Results that programs take for something else: a dict that holds one list or one text, and a text.

Tells which expressions of a program have such a result as their value, and how to reach what it holds.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import SchemaReader, properties_of
from codemode_server.catalog.returns import declared_result
from codemode_server.executions.preflight.call_checks import Bound
from codemode_server.executions.preflight.name_checks import Names
from codemode_server.executions.preflight.reading import Reading

Content = Literal["objects", "rows", "text"]
_MAX_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Form:
    """What a result is, by its type."""

    content: Content
    """What programs look for in it: a list of objects, a list of lists, or a text."""
    key: str | None
    """The key of the content in the dict; None if the result itself is the text."""
    is_closed: bool = False
    """Whether the dict is declared to have no other keys than those declared."""


@dataclass(frozen=True, slots=True)
class Found:
    """An expression whose value has a form."""

    form: Form
    description: str
    """What the value is, as the first part of a sentence."""
    written: str
    """The expression in short."""
    is_call: bool
    """Whether it is the call itself, so that nothing else of the program can use the value."""
    tool: Tool

    @property
    def content(self) -> str:
        """The expression for the list or text."""
        return self.written if self.form.key is None else f"{self.written}[{self.form.key!r}]"


class Results:
    """The expressions of one program."""

    def __init__(self, reading: Reading, names: Names, calls: list[Bound]) -> None:
        self._tools: dict[ast.AST, Tool] = {call.call: call.tool for call in calls}
        told_apart = {name for node in reading.nodes for name in _type_is_asked(node)}
        self._values = {
            name: value
            for node in reading.nodes
            for name, value in _assigned(node)
            if len(names.bound[name]) == 1 and name not in told_apart
        }

    def of(self, node: ast.expr, depth: int = 0) -> Found | None:
        """What an expression gives, if that is certain and of a form."""
        if depth > _MAX_DEPTH:
            return None
        node = node.value if isinstance(node, ast.Await) else node
        if (tool := self._tools.get(node)) is not None:
            form = _form(tool)
            kind = "text" if form is not None and form.key is None else "dict"
            return Found(form, f"{tool.name}() gives a {kind}", f"{tool.name}(…)", True, tool) if form else None
        match node:
            case ast.Name(id=name) if name in self._values:
                found = self.of(self._values[name], depth + 1)
                return found and Found(found.form, found.description, name, False, found.tool)
            case ast.Subscript(value=whole, slice=ast.Constant(value=str(key))):
                return self._text_in(whole, key, depth)
            case ast.Call(func=ast.Attribute(value=whole, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                return self._text_in(whole, key, depth)
        return None

    def _text_in(self, whole: ast.expr, key: str, depth: int) -> Found | None:
        found = self.of(whole, depth + 1)
        if found is None or found.form.content != "text" or found.form.key != key:
            return None
        description = f"{key!r} of {found.tool.name}() is a text"
        return Found(Form("text", None), description, found.content, found.is_call, found.tool)


def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, value)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, value)]
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return [(name, value)]
    return []


def _type_is_asked(node: ast.AST) -> list[str]:
    """The name whose type the program asks for: it is ready for several."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "type" | "hasattr"), args=[ast.Name(id=name), *_]):
            return [name]
    return []


@lru_cache(maxsize=512)
def _form(tool: Tool) -> Form | None:
    returned = tool.stub.returned
    if returned.origin == "observed":
        return Form("text", None) if str(returned.type) == "str" else None
    schema, _ = declared_result(tool.definition)
    reader = SchemaReader(tool.definition.output_schema)
    flat = reader.flat(schema)
    if flat.get("type") != "object" or any(word in flat for word in ("anyOf", "oneOf")):
        return None
    fields = {key: reader.flat(inner) for key, inner in properties_of(flat).items()}
    if any(word in field for field in fields.values() for word in ("anyOf", "oneOf")):
        return None
    is_closed = flat.get("additionalProperties") is False and "patternProperties" not in flat
    lists = [key for key, field in fields.items() if field.get("type") == "array"]
    if len(lists) == 1 and (content := _items(reader, fields[lists[0]])):
        return Form(content, lists[0], is_closed)
    texts = [key for key, field in fields.items() if field.get("type") == "string"]
    return Form("text", texts[0], is_closed) if len(texts) == len(fields) == 1 else None


def _items(reader: SchemaReader, field: dict[str, Any]) -> Content | None:
    """What a list holds, where that is what a program would loop over the result for."""
    items = reader.flat(field.get("items"))
    if properties_of(items):
        return "objects"
    return "rows" if items.get("type") == "array" else None
