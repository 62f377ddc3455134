"""Our own part of the check: what is exact, needs no process, and costs a millisecond.

Sure is what fails whenever its line runs: no such server, tool or name, a call that the guest or the gateway refuses,
a coroutine that nobody awaits. What may fail and be caught, or never run, is told as a warning.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.errors import InvalidArguments, UnknownTool
from codemode_server.execution.preflight.calling import Bound, bind, bind_form, constant_of, usage
from codemode_server.execution.preflight.fates import Fates
from codemode_server.execution.preflight.naming import Caller, Form, Names
from codemode_server.execution.preflight.reading import Reading, line_of
from codemode_server.gateway.arguments import check_arguments, known_problems

_MAX_SCHEMA_SECONDS = 0.2
"""For all calls of one program; schemas are the upstreams', and may be slow on purpose."""
_MOST_FINDINGS = 50
_MOST_LOOKED_AT = 300
_GIVEN = frozenset(dir(builtins)) | {
    *("exit", "quit", "ToolError", "PythonFinalizationError", "WindowsError", "_", "__file__", "__builtins__"),
    *("__annotations__", "__qualname__", "__module__", "__class__", "__dict__", "__path__", "__cached__"),
    *("__firstlineno__", "__static_attributes__", "__classdict__", "__conditional_annotations__", "__type_params__"),
}
"""Names that every program has."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a line."""

    line: int
    message: str
    is_sure: bool


class Findings:
    """Our own part for one program; `calls` are kept for the type checker's part."""

    def __init__(self, reading: Reading, catalog: Catalog) -> None:
        self.reading = reading
        self.names = Names(reading, catalog)
        self.fates = Fates(reading)
        self._catalog = catalog
        self._schema_seconds = _MAX_SCHEMA_SECONDS
        self.calls = [
            bind(target, node)
            for node in reading.nodes
            if isinstance(node, ast.Call) and isinstance(target := self.names.target(node.func), Tool)
        ]

    def all(self) -> list[Finding]:
        """What is wrong, in the order of the lines."""
        found: dict[tuple[int, str], Finding] = {}
        for finding in islice(self._each(), _MOST_LOOKED_AT):
            known = found.setdefault((finding.line, finding.message), finding)
            if finding.is_sure and not known.is_sure:
                found[finding.line, finding.message] = finding
            if len(found) >= _MOST_FINDINGS:
                break
        return sorted(found.values(), key=lambda finding: finding.line)

    def finding(
        self, node: ast.AST, message: str, raises: str, *, is_sure: bool = True, is_awaited_elsewhere: bool = False
    ) -> Finding:
        """Sure if the failure, an exception named `raises`, would end the program."""
        is_sure = (
            is_sure
            and not self.names.is_dynamic
            and self.fates.ends_the_program(node, raises, is_awaited_elsewhere=is_awaited_elsewhere)
        )
        return Finding(line_of(node), message, is_sure)

    def _each(self) -> Iterator[Finding]:
        for unknown in self.names.unknown:
            is_sure = unknown.is_sure and not self.fates.is_asked_for(unknown.node, unknown.name)
            yield self.finding(unknown.node, unknown.message, unknown.raises, is_sure=is_sure)
        for call in self.calls:
            if call.problem:
                yield self.finding(call.call, call.problem, "TypeError")
            else:
                yield from self._refused_by_schema(call)
        for node in self.reading.nodes:
            if isinstance(node, ast.Call):
                yield from self._called_in_another_form(node)
                yield from self._called_by_text(node)
        if self.names.imports_tools:
            yield from self._forgotten_awaits()
        yield from self._undefined_names()

    def _called_in_another_form(self, node: ast.Call) -> Iterator[Finding]:
        target = self.names.target(node.func)
        if isinstance(target, Form) and (problem := bind_form(target.tool, target.name, node).problem):
            yield self.finding(node, problem, "TypeError")

    def _refused_by_schema(self, call: Bound) -> Iterator[Finding]:
        constants = call.constants
        if not constants or self._schema_seconds <= 0:
            return
        started = time.monotonic()
        is_all = call.is_whole and len(constants) == len(call.given)
        problems = known_problems(call.tool, constants, is_all=is_all)
        self._schema_seconds -= time.monotonic() - started
        if problems:
            message = f"{call.tool.name}(): {'; '.join(problems)}. {usage(call.tool)}"
            yield self.finding(call.call, message, "ToolError", is_awaited_elsewhere=self._is_awaited_elsewhere(call))

    def _is_awaited_elsewhere(self, call: Bound) -> bool:
        """Whether a failure of the call itself may come to light at another place: in async code, unless awaited."""
        return not isinstance(self.reading.parents.get(call.call), ast.Await) and self.is_async(call.call)

    def is_async(self, node: ast.AST) -> bool:
        """Whether a call here may give something to await."""
        functions = self.reading.functions(node)
        return not isinstance(functions[0], ast.FunctionDef) if functions else self._awaits_at_top

    def is_in_lambda(self, node: ast.AST) -> bool:
        return any(isinstance(function, ast.Lambda) for function in self.reading.functions(node)[:1])

    @cached_property
    def _awaits_at_top(self) -> bool:
        kinds = (ast.Await, ast.AsyncFor, ast.AsyncWith)
        return any(isinstance(node, kinds) and not self.reading.functions(node) for node in self.reading.nodes)

    def _called_by_text(self, node: ast.Call) -> Iterator[Finding]:
        """`codemode.call("github", "create_issue", {…})`, `client.call_mcp_tool("mcp__github__create_issue", {…})`."""
        target = self.names.target(node.func)
        if not isinstance(target, Caller) or any(isinstance(argument, ast.Starred) for argument in node.args):
            return
        texts = [constant_of(argument) for argument in node.args[: 2 if target.name == "call" else 1]]
        if not texts or not all(isinstance(text, str) for text in texts):
            return
        if target.name == "call_mcp_tool":
            server, _, tool = texts[0].removeprefix("mcp__").partition("__")
        elif len(texts) == 2:
            server, tool = texts
        else:
            return
        arguments = _arguments_of(node, len(texts))
        problem = ""
        started = time.monotonic()
        try:
            found = self._catalog.tool(server, tool)
            if arguments is not None and self._schema_seconds > 0:
                check_arguments(found, arguments)
        except (UnknownTool, InvalidArguments) as error:
            problem = str(error) if tool else ""
        self._schema_seconds -= time.monotonic() - started
        if problem:
            yield self.finding(node, problem, "ToolError", is_awaited_elsewhere=self.is_async(node))

    # What a program forgets ------------------------------------------------------------------------------------------

    def _forgotten_awaits(self) -> Iterator[Finding]:
        """Statements that make a coroutine of the program's own and drop it: nothing of it ever runs."""
        own = {
            node.name
            for node in self.reading.nodes
            if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list and not _yields(node)
        }
        for node in self.reading.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in own:
                continue
            if len(self.names.bound[node.func.id]) != 1:
                continue
            parent = self.reading.parents[node]
            name = node.func.id
            if isinstance(parent, ast.Expr) and parent is not self.reading.last:
                message = f"{name}() is async and nobody awaits it, so nothing of it runs; write: await {name}(…)"
                yield self.finding(node, message, "RuntimeWarning")
            elif _uses_value(parent, node):
                message = f"{name}() is async, so this is a coroutine and not yet its value; write: (await {name}(…))"
                yield self.finding(node, message, "TypeError")

    def _undefined_names(self) -> Iterator[Finding]:
        if self.names.star_of_others or self.names.is_dynamic:
            return
        annotations = {
            inner for node in self.reading.nodes for annotation in _annotations(node) for inner in ast.walk(annotation)
        }
        told: set[str] = set()
        for node in self.reading.nodes:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node in annotations:
                continue
            if node.id in self.names.bound or node.id in _GIVEN or node.id in told:
                continue
            told.add(node.id)
            hint = self._hint(node.id)
            if hint or self.names.imports_tools:
                yield self.finding(node, f"name {node.id!r} is not defined{hint}", "NameError")

    def _hint(self, name: str) -> str:
        tools = [tool for tool in self._catalog.tools() if tool.name == name]
        if tools:
            return f"; write: {' or '.join(tool.import_line for tool in tools[:3])}"
        if any(server.name == name for server in self._catalog.servers):
            return f"; write: from servers import {name}"
        if not self.names.imports_tools:
            return ""
        near = difflib.get_close_matches(name[:100], [known for known in self.names.bound if known], n=1, cutoff=0.7)
        return f"; did you mean {near[0]!r}?" if near else ""


def _arguments_of(node: ast.Call, texts: int) -> dict[str, Any] | None:
    """The arguments of a call by text, None if they are not all written out."""
    rest = node.args[texts:]
    named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg != "type"}
    given = rest[0] if rest else named.pop("arguments", None)
    if named or len(rest) > 2:
        return None
    found = constant_of(given) if given is not None else {}
    return found if isinstance(found, dict) else None


def _yields(function: ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))


def _uses_value(parent: ast.AST, node: ast.AST) -> bool:
    match parent:
        case ast.Subscript(value=value):
            return value is node
        case ast.Attribute(attr=attr):
            return attr not in ("send", "throw", "close") and not attr.startswith(("cr_", "__"))
        case ast.For(iter=source) | ast.comprehension(iter=source, is_async=0):
            return source is node
        case ast.BinOp():
            return True
        case _:
            return False


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        if isinstance(found := getattr(node, name, None), ast.AST):
            yield found
