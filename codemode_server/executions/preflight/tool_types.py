"""The part of the check that a type checker does: the stubs of a program's tools, and what it reports about them.

The checker reads the program as it is, but for calls of tools: where a call is awaited, the tool's stub gives the value
already, and where the value goes elsewhere (`asyncio.gather`) it is wrapped. Of what it reports, only wrong keys and
attributes of results are used; the rest is ordinary Python without types.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import SchemaReader, properties_of
from codemode_server.catalog.returns import declared_result
from codemode_server.domain.calls import ResultKey
from codemode_server.executions.preflight.checker import Diagnostic
from codemode_server.executions.preflight.findings import Finding, Findings
from codemode_server.sandbox.guest.await_rule import Use

_IMPORT = "from _cm import pending as _cm_pending, loose as _cm_loose\n"
SUPPORT = """\
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
T = TypeVar("T")
class Pending(Coroutine[Any, Any, T]):
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, key: Any) -> Any: ...
def pending(value: T) -> Pending[T]: ...
def loose(function: Callable[..., T]) -> Callable[..., T]: ...
"""
PACKAGE = """\
from collections.abc import Callable
from typing import Any, TypeVar
T = TypeVar("T")
File = Any
class ToolError(RuntimeError):
    message: str
    server: str
    tool: str
    kind: str
def tool(*names: Any) -> Callable[[T], T]: ...
"""
_KEY = re.compile(r'(Unknown key "(.*?)" for TypedDict `(\w+)`[^\n]*)')
_ATTRIBUTE = re.compile(r"(Object of type `(?:list\[)?(\w+)\]?` has no attribute `(\w+)`)")
_INDEX = re.compile(r'with key of type `Literal\["(.*?)"\]` on object of type `list\[(\w+)\]`')
_UNION = re.compile(r"subscripted object has type `([^`]+)`")
_BESIDE = frozenset({"files", "text"})
"""Attributes and keys of what a tool sent beside its result (`sandbox/guest/files.py`); no type declares them."""
_MAX_KEYS = 12
_FILE = "from servers import tool", "from servers import File, tool"


@dataclass(frozen=True, slots=True)
class ResultClass:
    """One TypedDict of a tool's stub."""

    tool: Tool
    name: str
    keys: tuple[str, ...]
    optional: frozenset[str]
    """Keys that such a dict may lack."""
    is_closed: bool
    """True if the upstream declares that there are no other keys."""

    @property
    def summary(self) -> str:
        marked = [f"{key}?" if key in self.optional else key for key in self.keys[:_MAX_KEYS]]
        more = f", … ({len(self.keys) - _MAX_KEYS} more)" if len(self.keys) > _MAX_KEYS else ""
        return f"{', '.join(marked)}{more}"


class TypeDocument:
    """A program for the type checker, and its findings."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        tools = {call.tool.path: call.tool for call in findings.calls}.values()
        self.stubs = {"_cm.pyi": SUPPORT, "servers/__init__.pyi": PACKAGE}
        self.stubs |= {f"servers/{it.server}/{it.name}.pyi": it.stub.source.replace(*_FILE, 1) for it in tools}
        """By path, from the folder of modules."""
        for server in sorted({tool.server for tool in tools}):
            names = [tool.name for tool in tools if tool.server == server]
            lines = [f"from .{name} import {name} as {name}" for name in names]
            self.stubs[f"servers/{server}/__init__.pyi"] = "\n".join([*lines, ""])
        self._classes: dict[str, list[ResultClass]] = {}
        for found in (one for tool in tools for one in _classes_of(tool)):
            self._classes.setdefault(found.name, []).append(found)
        self.text = _IMPORT + _edited(findings)

    def findings(self, diagnostics: list[Diagnostic]) -> Iterator[Finding]:
        for diagnostic in diagnostics:
            line = diagnostic.line - _IMPORT.count("\n")
            statement = self._statement_at(line)
            finding = self._finding(diagnostic.message, statement) if statement is not None else None
            if finding is not None:
                yield replace(finding, line=line)

    def _finding(self, message: str, statement: ast.stmt) -> Finding | None:
        if found := _KEY.match(message):
            return self._unknown_key(statement, found[1], found[2], found[3], _UNION.search(message))
        if (found := _ATTRIBUTE.match(message)) and (classes := self._classes.get(found[2])):
            write = f"; write [{found[3]!r}]" if found[3] in classes[0].keys and "list[" not in found[1] else ""
            text = f"{found[1]}{write}. {_described(classes[0])}"
            is_declared = all(one.tool.stub.returned.origin == "declared" for one in classes)
            return None if found[3] in _BESIDE else self._found(statement, text, is_sure=is_declared)
        if (found := _INDEX.search(message)) and (classes := self._classes.get(found[2])):
            text = f"a list can't be indexed by {found[1]!r}; {_described(classes[0], 'an item')}"
            is_member = re.search(rf"\| list\[{found[2]}\]|list\[{found[2]}\] \|", classes[0].tool.stub.source)
            return None if is_member or found[1] in _BESIDE else self._found(statement, text, is_sure=False)
        return None

    def _unknown_key(
        self, statement: ast.stmt, message: str, key: str, name: str, union: re.Match[str] | None
    ) -> Finding | None:
        classes = self._classes.get(name)
        if not classes or key in _BESIDE or key in self._other_texts:
            return None
        others = re.findall(r"\w+", union[1]) if union else []
        if any(key in one.keys for other in others for one in self._classes.get(other, ())) or "Unknown" in others:
            return None  # any member of a union may come at run time
        reported = classes[0]
        returned = reported.tool.stub.returned
        if returned.origin == "observed" and reported.name in returned.open_classes and "did you mean" not in message:
            return None  # the keys of such a dict depend on the arguments
        is_sure = all(one.is_closed for one in classes) and not union and not self._adds_any_key
        finding = self._found(
            statement, f"{message}{'' if message.endswith('?') else '.'} {_described(reported)}", is_sure=is_sure
        )
        return replace(finding, doubted=ResultKey(reported.tool.server, reported.tool.name, key))

    def _found(self, statement: ast.stmt, message: str, *, is_sure: bool) -> Finding:
        return self._findings.finding(statement, message, is_sure=is_sure and self._is_plain(statement))

    def _is_plain(self, statement: ast.stmt) -> bool:
        """True if every part of the statement runs, and no function changes names that are not its own."""
        parts = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.stmt)
        inner = (node for node in ast.walk(statement) if node is not statement)
        return not self._changes_names and not any(isinstance(node, parts) for node in inner)

    def _statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement at a line."""
        at_line = [node for node in self._statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
        return at_line[-1] if at_line else None

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        return [node for node in self._findings.reading.nodes if isinstance(node, ast.stmt)]

    @cached_property
    def _changes_names(self) -> bool:
        return any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in self._findings.reading.nodes)

    @cached_property
    def _other_texts(self) -> set[str]:
        """Names that the program uses in another way than `x["name"]`: it may add such keys, or ask for them first."""
        parents = self._findings.reading.parents
        texts = {
            node.value
            for node in self._findings.reading.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if not (isinstance(parent := parents[node], ast.Subscript) and isinstance(parent.ctx, ast.Load))
        }
        return texts | {node.arg for node in self._findings.reading.nodes if isinstance(node, ast.keyword) and node.arg}

    @cached_property
    def _adds_any_key(self) -> bool:
        """True if the program may add keys that are not written out."""
        for node in self._findings.reading.nodes:
            match node:
                case ast.Subscript(ctx=ast.Store(), slice=key) if not isinstance(key, ast.Constant):
                    return True
                case ast.AugAssign(op=ast.BitOr()) | ast.Call(func=ast.Attribute(attr="update" | "setdefault")):
                    return True
        return False


def _described(known: ResultClass, subject: str = "It") -> str:
    returned = known.tool.stub.returned
    calls = f", as observed in {returned.calls} calls" if returned.origin == "observed" else ""
    return f"{subject} has {known.summary} (from {known.tool.name}(){calls})."


def _edited(findings: Findings) -> str:
    """The program's text with changed calls; nothing is moved to another line."""
    edits: list[tuple[int, int, int, str]] = []
    parents, uses = findings.reading.parents, findings.call_uses
    for call in findings.calls:
        node, parent = call.call, parents[call.call]
        if sys.version_info < (3, 12) and any(
            isinstance(outer, ast.JoinedStr) for outer, _ in findings.reading.above(node)
        ):
            continue  # places within an f-string are not known
        if isinstance(parent, ast.Await):
            if hasattr(parent, "lineno"):
                edits += [(parent.lineno, parent.col_offset, len("await"), "("), _end(parent, ")")]
        elif uses.use_of(node) is not Use.VALUE:
            edits += [(node.lineno, node.col_offset, 0, "_cm_pending("), _end(node, ")")]
        if call.problem or not call.is_whole or any(keyword.arg is None for keyword in node.keywords) or _is_dict(node):
            edits += [(node.func.lineno, node.func.col_offset, 0, "_cm_loose("), _end(node.func, ")")]
    lines = [line.encode() for line in re.split("\r\n|\r|\n", findings.reading.text)]  # as Python counts them
    for number, column, length, text in sorted(edits, key=lambda edit: edit[:2])[::-1]:
        line = lines[number - 1]
        lines[number - 1] = line[:column] + text.encode() + b" " * length + line[column + length :]
    return b"\n".join(lines).decode()


def _end(node: ast.expr, text: str) -> tuple[int, int, int, str]:
    return node.end_lineno or 0, node.end_col_offset or 0, 0, text


def _is_dict(call: ast.Call) -> bool:
    """True if the only argument may be a dict of all arguments."""
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Constant)


def _classes_of(tool: Tool) -> Iterator[ResultClass]:
    is_declared = tool.stub.returned.origin == "declared"
    closed = _closed_keys(tool) if is_declared else set()
    for name, keys, optional in _typed_dicts(tool.stub.source):
        yield ResultClass(tool, name, keys, optional, frozenset(keys) in closed)


@lru_cache(maxsize=512)
def _typed_dicts(source: str) -> list[tuple[str, tuple[str, ...], frozenset[str]]]:
    found = []
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name, keywords=words, body=body):
                fields = [it for it in body if isinstance(it, ast.AnnAssign)]
                types = {it.target.id: it.annotation for it in fields if isinstance(it.target, ast.Name)}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, ast.Dict() as held], keywords=words)):
                pairs = zip(held.keys, held.values, strict=True)
                types = {str(key.value): kind for key, kind in pairs if isinstance(key, ast.Constant)}
            case _:
                continue
        is_partial = any(word.arg == "total" for word in words)
        optional = {key for key, kind in types.items() if is_partial or ast.unparse(kind).startswith("NotRequired")}
        found.append((name, tuple(types), frozenset(optional)))
    return found


@lru_cache(maxsize=512)
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
