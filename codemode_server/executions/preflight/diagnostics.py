"""Selects the diagnostics that are about tools: their arguments and their results.

The rest is ordinary Python that a model wrote without types, and no business of ours. Its words are read by patterns,
and what fits none is left out: the checker is young, and a new version may say it otherwise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from codemode_server.executions.preflight.beside import (
    comes_with_result,
    has_file_attributes,
    is_always_none,
    way_to_file,
)
from codemode_server.executions.preflight.call_checks import NOT_CONSTANT, constant_of
from codemode_server.executions.preflight.checker import Diagnostic
from codemode_server.executions.preflight.document import Document
from codemode_server.executions.preflight.findings import Finding, Findings
from codemode_server.executions.preflight.tool_types import ResultClass, classes_in, in_words
from codemode_server.executions.preflight.unions import classes_without, is_member, names_a_union
from codemode_server.gateway.arguments import known_problems
from codemode_server.gateway.received_keys import ResultKey
from codemode_server.sandbox.guest.similar_names import similar_name

_KEY = re.compile(r'Unknown key "(?P<key>.*?)" for TypedDict `(?P<type>\w+)`(?P<union> \(subscripted)?')
_ATTRIBUTE = re.compile(r"Object of type `(?P<type>[^`]+)` has no attribute `(?P<name>\w+)`")
_ARGUMENT = re.compile(
    # json.loads of the guest takes what was read already.
    r"Argument to (?!function `loads`).* is incorrect: Expected `(?P<expected>[^`]+)`, found `(?P<found>[^`]+)`"
)
_ITEM = re.compile(
    r"Method `__getitem__` of type .* with key of type `(?P<key>[^`]+)` on object of type `(?P<type>[^`]+)`"
)
_OTHERS = frozenset({"unsupported-operator", "not-iterable", "not-subscriptable", "non-subscriptable"})
_MAX_KEYS = 12
_OUTER = {name: name for name in ("str", "bytes", "bytearray", "int", "float", "bool", "None", "list", "dict")} | {
    "_CmText": "str",
    "LiteralString": "str",
    "tuple": "list",
    "set": "list",
    "frozenset": "list",
}
_TAKES = {"float": {"int", "bool"}, "int": {"bool"}}


class Reader:
    """Reads the diagnostics of one document."""

    def __init__(self, findings: Findings, document: Document) -> None:
        self._findings = findings
        self._document = document
        self._classes: dict[str, ResultClass] = {
            name: found for types in document.tools.values() for name, found in types.classes.items()
        }

    def findings(self, diagnostics: list[Diagnostic]) -> Iterator[Finding]:
        for diagnostic in diagnostics:
            nodes = self._document.nodes_at(diagnostic.start, diagnostic.end)
            if nodes and (found := self._finding(diagnostic, nodes[-1])) is not None:
                yield found

    def _finding(self, diagnostic: Diagnostic, node: ast.AST) -> Finding | None:
        original = self._document.original(node)
        if original is None:
            return None
        message = diagnostic.message.split("\n", 1)[0]
        if found := _KEY.match(message):
            return self._unknown_key(original, found, message)
        if found := _ATTRIBUTE.match(message):
            return self._unknown_attribute(original, found["type"], found["name"])
        if found := _ARGUMENT.match(message):
            return self._wrong_argument(node, original, found, message)
        if found := _ITEM.match(message):
            return self._wrong_index(original, found["type"], found["key"])
        # Dicts are joined with `|` as they like.
        if diagnostic.code in _OTHERS and classes_in(message) and "`|" not in message and not names_a_union(message):
            return self._doubt(original, in_words(message) + self._origins(message))
        return None

    def _unknown_key(self, node: ast.AST, found: re.Match[str], message: str) -> Finding | None:
        reported = self._classes.get(found["type"])
        key = found["key"]
        subscript = self._findings.reading.parents.get(node)
        if reported is None or not isinstance(subscript, ast.Subscript) or not isinstance(subscript.ctx, ast.Load):
            return None
        if key in self._own_keys or self._findings.fates.is_asked_for(node, key) or comes_with_result(reported, key):
            return None
        lacking = classes_without(key, message, reported, self._classes)
        if not lacking:
            return None
        keys = list(dict.fromkeys(name for known in lacking for name in known.keys))
        meant = similar_name(key, keys)
        hint = f"; did you mean {meant!r}?" if meant else "."
        tool, returned = reported.tool, reported.tool.stub.returned
        is_sure = False
        if returned.origin == "observed":
            if not meant and any(known.name in returned.open_classes for known in lacking):
                return None  # the keys of such a dict depend on the arguments
            calls = f"{returned.calls} call{'' if returned.calls == 1 else 's'}"
            whole = f"what {tool.name}() gives"
            place = f"what {tool.name}() gave" if reported.place == whole else reported.place
            text = f"{key!r} was not in {place} in {calls}{hint} {_has(lacking)}"
        else:
            text = f"{reported.place} has no key {key!r}{hint} {_has(lacking)}"
            is_sure = reported.is_closed and not found["union"] and self._is_plain_flow and not self._adds_any_key
        finding = self._findings.finding(node, text, "KeyError", is_sure=is_sure)
        return replace(finding, doubted_key=ResultKey(tool.server, tool.name, key))

    def _unknown_attribute(self, node: ast.AST, kind: str, name: str) -> Finding | None:
        if not classes_in(kind) or " | " in kind:
            return None
        known = self._classes.get(kind)
        what = in_words(kind)
        if has_file_attributes(kind, name) or (known is not None and comes_with_result(known, name)):
            return None
        if known is None:
            return self._doubt(node, f"{what} has no attribute {name!r}{self._origins(kind)}")
        in_files = way_to_file(known, name, self._classes.values())
        write = f"; write [{name!r}]" if name in known.keys else in_files
        if is_always_none(known, name):
            nothing = f"no text comes beside what {known.tool.name}() gives, so .{name} is None at most"
            return self._doubt(node, f"{nothing}{write}. {_has([known])}")
        message = f"{known.place} is a dict without attribute {name!r}{write}. {_has([known])}"
        is_sure = known.tool.stub.returned.origin == "declared" and self._is_plain_flow
        return self._findings.finding(node, message, "AttributeError", is_sure=is_sure)

    def _wrong_argument(self, node: ast.AST, original: ast.AST, found: re.Match[str], message: str) -> Finding | None:
        expected, given = _kinds(found["expected"]), _kinds(found["found"])
        if not expected or not given or any(_takes(expected, kind) for kind in given):
            return self._refused_value(node, original, found["found"])
        argument = self._document.argument(node)
        if argument is not None and constant_of(_expression(original)) is not NOT_CONSTANT:
            return None  # the check against the schema has answered that
        if argument is None:
            is_ours = bool(classes_in(found["found"]))
            return self._doubt(original, in_words(message) + self._origins(found["found"])) if is_ours else None
        refused = self._refused_value(node, original, found["found"])
        if refused is not None:
            return refused
        call, name = argument
        text = f"{call.tool.name}(): {name!r} takes {in_words(found['expected'])}, not {in_words(found['found'])}."
        return self._doubt(original, text)

    def _refused_value(self, node: ast.AST, original: ast.AST, kind: str) -> Finding | None:
        """The gateway's error for a variable that has one constant value."""
        argument = self._document.argument(node)
        value = _value(kind)
        if argument is None or value is NOT_CONSTANT or constant_of(_expression(original)) is not NOT_CONSTANT:
            return None
        call, name = argument
        raw = next((it.raw_name for it in call.tool.parameters if it.name == name), name)
        problems = known_problems(call.tool, {raw: value}, is_all=False)
        if not problems:
            return None
        is_sure = isinstance(original, ast.Name) and len(self._findings.names.bound.get(original.id, ())) == 1
        return self._findings.finding(
            original,
            f"{call.tool.name}(): {'; '.join(problems)}.",
            "ToolError",
            is_sure=is_sure and self._is_plain_flow,
            is_awaited_elsewhere=self._findings.call_uses.is_async(original),
        )

    def _wrong_index(self, node: ast.AST, kind: str, key: str) -> Finding | None:
        if not classes_in(kind) or " | " in kind or _value(key) is NOT_CONSTANT or self._is_union_member(kind):
            return None
        return self._doubt(node, f"{in_words(kind)} can't be indexed by {_value(key)!r}{self._origins(kind)}")

    def _is_union_member(self, kind: str) -> bool:
        stubs = [types.tool.stub for types in self._document.tools.values()]
        return is_member(kind, (stub.returned.type for stub in stubs), (stub.source for stub in stubs))

    def _doubt(self, node: ast.AST, message: str) -> Finding | None:
        return self._findings.finding(node, message, "TypeError", is_sure=False)

    def _origins(self, text: str) -> str:
        """Which tools returned the types in a text, and whether these are declared or observed."""
        origins = []
        for name in dict.fromkeys(classes_in(text)):
            if known := self._classes.get(name):
                returned = known.tool.stub.returned
                calls = f", as observed in {returned.calls} calls" if returned.origin == "observed" else ""
                origins.append(f"from {known.tool.name}(){calls}")
        if "_CmText" in text and not origins:
            origins = ["what the tool gives is text"]
        return f" ({'; '.join(dict.fromkeys(origins))})" if origins else ""

    @cached_property
    def _is_plain_flow(self) -> bool:
        """Whether no name is changed from within a function that it does not belong to."""
        return not any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in self._findings.reading.nodes)

    @cached_property
    def _own_keys(self) -> set[str]:
        """Keys that the program itself may add to results."""
        return {key for keys in self._additions for key in keys or ()}

    @cached_property
    def _adds_any_key(self) -> bool:
        """Whether it may add keys that are not known beforehand."""
        return any(keys is None for keys in self._additions)

    @cached_property
    def _additions(self) -> list[set[str] | None]:
        """The keys that each place adds which adds some; None for keys that are not written out."""
        return [keys for node in self._findings.reading.nodes for keys in _added_by(node)]


def _added_by(node: ast.AST) -> Iterator[set[str] | None]:
    match node:
        case ast.Subscript(ctx=ast.Store(), slice=key):
            yield {str(key.value)} if isinstance(key, ast.Constant) else None
        case ast.AugAssign(op=ast.BitOr(), value=more):
            yield _keys_of(more)
        case ast.Call(func=ast.Attribute(attr="update"), args=args, keywords=keywords):
            yield from map(_keys_of, args)
            yield {keyword.arg for keyword in keywords if keyword.arg}
            if any(keyword.arg is None for keyword in keywords):
                yield None
        case ast.Call(func=ast.Attribute(attr="setdefault" | "__setitem__"), args=[key, *_]):
            yield {str(key.value)} if isinstance(key, ast.Constant) else None


def _keys_of(node: ast.expr) -> set[str] | None:
    """The keys of a dict that is written out."""
    if not isinstance(node, ast.Dict) or not all(isinstance(key, ast.Constant) for key in node.keys):
        return None
    return {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}


def _has(classes: Sequence[ResultClass]) -> str:
    """The keys of a dict of one of these classes; `?` marks those that it may lack."""
    keys = list(dict.fromkeys(key for known in classes for key in known.keys))
    sure = [key for key in keys if all(key in known.keys and key not in known.optional for known in classes)]
    shown = [key if key in sure or not sure else f"{key}?" for key in keys[:_MAX_KEYS]]
    more = f", … ({len(keys) - _MAX_KEYS} more)" if len(keys) > _MAX_KEYS else ""
    return f"It {'has' if sure else 'may have'} {', '.join(shown)}{more}."


def _expression(node: ast.AST) -> ast.expr:
    return node if isinstance(node, ast.expr) else ast.Constant(...)


def _value(kind: str) -> Any:
    """The one value that a type allows, or `NOT_CONSTANT`."""
    if kind == "None":
        return None
    if not kind.startswith("Literal[") or not kind.endswith("]"):
        return NOT_CONSTANT
    try:
        held = ast.parse(kind[8:-1], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NOT_CONSTANT
    return NOT_CONSTANT if isinstance(held, ast.Tuple) else constant_of(held)  # a tuple is a choice of values


def _kinds(text: str) -> set[str]:
    """The kinds of JSON value that a type may be; nothing if one of its members is none that we know."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    kinds: set[str] = set()
    waiting: list[ast.expr] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp):
            waiting += [node.left, node.right]
            continue
        kind = _kind(node)
        if not kind:
            return set()
        kinds |= kind
    return kinds


def _kind(node: ast.expr) -> set[str]:
    match node:
        case ast.Constant(value=None):
            return {"None"}
        case ast.Subscript(value=ast.Name(id="Literal"), slice=held):
            values = [constant_of(member) for member in (held.elts if isinstance(held, ast.Tuple) else [held])]
            return {type(value).__name__ for value in values if isinstance(value, str | int | bool)}
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return {_OUTER[name]} if name in _OUTER else {"dict"} if classes_in(name) else set()
        case _:
            return set()


def _takes(expected: set[str], kind: str) -> bool:
    return kind in expected or any(kind in _TAKES.get(name, ()) for name in expected)
