"""A program and the types of its tools as one Python text for the type checker, and the way back from places in it.

The program is written anew from its syntax tree, so that the text holds nothing of it but code: no comments, nothing
that a type checker takes for an instruction. Three things are changed on the way:

* an import of tools becomes an assignment of objects with their types;
* a call of a tool is written by keyword, whatever way it had, with its Python names;
* `await tool(…)` is the tool's value, as is a call that gives its value (`sandbox/guest/await_rule.py`); a call that is
  awaited with others is awaitable; any other is anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, cast

from codemode_server.catalog.catalog import Tool
from codemode_server.executions.preflight.call_checks import Bound, signature_of
from codemode_server.executions.preflight.findings import Findings
from codemode_server.executions.preflight.reading import parsed
from codemode_server.executions.preflight.tool_types import HEADER, ToolTypes, types_of
from codemode_server.sandbox.guest.await_rule import Use
from codemode_server.sandbox.importable import TOOL_MODULES


class Document:
    """The document of one program."""

    def __init__(self, findings: Findings) -> None:
        self.tools: dict[str, ToolTypes] = {}
        """By the name of what stands for the tool in the text."""
        copy = parsed(findings.reading.text)
        originals = dict(zip(ast.walk(copy), findings.reading.nodes, strict=True))
        rewriter = _Rewriter(findings, originals, self.tools)
        program = ast.unparse(rewriter.visit(copy))
        self._arguments = rewriter.arguments
        self._originals = rewriter.originals
        head = "\n".join([HEADER, *(types.source for types in self.tools.values()), ""])
        self.text = head + program
        self._first_line = head.count("\n")
        written = parsed(program)
        self._places: dict[tuple[tuple[int, int], tuple[int, int]], list[ast.AST]] = {}
        for place, node in zip(ast.walk(written), ast.walk(copy), strict=True):
            if type(place) is not type(node):
                raise ValueError("the text is not the tree that it was written from")
            if hasattr(place, "end_col_offset"):
                start = (place.lineno, place.col_offset)  # type: ignore[attr-defined]
                end = (place.end_lineno, place.end_col_offset)  # type: ignore[attr-defined]
                self._places.setdefault((start, end), []).append(node)

    def nodes_at(self, start: tuple[int, int], end: tuple[int, int]) -> list[ast.AST]:
        """The nodes of the rewritten program at a place of the text, the outermost first."""
        offset = self._first_line
        return self._places.get(((start[0] - offset, start[1]), (end[0] - offset, end[1])), [])

    def original(self, node: ast.AST) -> ast.AST | None:
        """The node of the program that a node was made from."""
        return self._originals.get(node)

    def argument(self, node: ast.AST) -> tuple[Bound, str] | None:
        """The call that a node is an argument of, and the name of the parameter."""
        return self._arguments.get(node)


class _Rewriter(ast.NodeTransformer):
    """Changes a copy of the program's tree."""

    def __init__(self, findings: Findings, originals: dict[ast.AST, ast.AST], tools: dict[str, ToolTypes]) -> None:
        self._findings = findings
        self._copied = originals
        self._tools = tools
        self._calls: dict[ast.AST, Bound] = {call.call: call for call in findings.calls}
        self._now: dict[ast.AST, ast.AST] = {}
        """By the node of the program, what stands for it now."""
        self.originals: dict[ast.AST, ast.AST] = {}
        self.arguments: dict[ast.AST, tuple[Bound, str]] = {}

    def visit(self, node: ast.AST) -> Any:
        original = self._copied.get(node)
        new = super().visit(node)
        if original is not None and isinstance(new, ast.AST):
            self._now[original] = new
            self.originals[new] = original
        return new

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.stmt]:
        ours = [alias for alias in node.names if alias.name.partition(".")[0] in TOOL_MODULES]
        others = [alias for alias in node.names if alias not in ours]
        names = [alias.asname or alias.name.partition(".")[0] for alias in ours]
        rest: list[ast.stmt] = [ast.Import(others)] if others else []
        return [*rest, *self._assignments(names)] if ours else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        if node.module == "__future__":
            return ast.Pass()
        if node.level or (node.module or "").partition(".")[0] not in TOOL_MODULES:
            return node
        names = {alias.asname or alias.name for alias in node.names}
        if "*" in names:  # all that it may mean
            used = {found.id for found in self._findings.reading.nodes if isinstance(found, ast.Name)}
            names = {name for name in used if self._findings.names.target(ast.Name(name, ast.Load())) is not None}
        return self._assignments(sorted(names)) or ast.Pass()

    def _assignments(self, names: Iterable[str]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for name in names:
            target = self._findings.names.target(ast.Name(name, ast.Load()))
            value = self._stand_in(target) if isinstance(target, Tool) else "_cm_any"
            made.append(ast.Assign([ast.Name(name, ast.Store())], ast.Name(value, ast.Load()), lineno=1))
        return made

    def _stand_in(self, tool: Tool) -> str:
        types = types_of(tool)
        self._tools[types.name] = types
        return types.name

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """As a call that gives text: Pythons differ in how they write f-strings."""
        values = [
            self.visit(part.value)
            for part in ast.walk(node)
            if isinstance(part, ast.FormattedValue) and not isinstance(part.value, ast.JoinedStr)
        ]
        return ast.Call(ast.Name("_cm_text", ast.Load()), values, [])

    def visit_Await(self, node: ast.Await) -> ast.AST:
        is_call = self._copied.get(node.value) in self._calls
        self.generic_visit(node)
        return node.value if is_call else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        original = cast("ast.Call", self._copied[node])
        call = self._calls.get(original)
        self.generic_visit(node)
        if call is None:
            return node
        types = types_of(call.tool)
        stand_in = ast.Name(self._stand_in(call.tool), ast.Load())
        signature = signature_of(call.tool)
        form = "_cm_loose"
        if not call.problem and call.is_whole:
            form = types.case_of(call.constants)
            node.args = []
            node.keywords = [self._keyword(call, name, value) for name, value in call.given.items()]
        elif not call.problem and _is_one(node) and signature.names and not signature.takes_objects(signature.names[0]):
            form = "_cm_one"
            self.arguments[node.args[0]] = (call, signature.names[0])
        node.func = ast.Attribute(stand_in, form, ast.Load()) if form else stand_in
        return self._as_it_is_used(node, original)

    def _keyword(self, call: Bound, name: str, value: ast.expr) -> ast.keyword:
        keyword = ast.keyword(name, cast("ast.expr", self._now[value]))
        self.arguments[keyword] = (call, name)
        self.originals[keyword] = value
        return keyword

    def _as_it_is_used(self, call: ast.Call, original: ast.Call) -> ast.expr:
        """The value where the call gives it, else awaitable where that is certain, or anything."""
        uses = self._findings.call_uses
        is_awaited = isinstance(self._findings.reading.parents[original], ast.Await)  # `visit_Await` takes that away
        if is_awaited or uses.use_of(original) is Use.VALUE:
            return call
        wrapper = "_cm_pending" if uses.is_awaited_in_place(original) else "_cm_either"
        return ast.Call(ast.Name(wrapper, ast.Load()), [call], [])


def _is_one(call: ast.Call) -> bool:
    """Whether one thing is given, which may be the first argument or all of them."""
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
