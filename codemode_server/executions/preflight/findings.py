"""Static check: unknown names, refused calls and un-awaited coroutines.

Sure are a server, tool or name that does not exist, a call that the guest or the gateway refuses and a coroutine that
nobody awaits, where the line certainly runs and nothing catches the failure. Elsewhere they are warnings. A program
that Python can't parse fails in any case; for names of tools and for other languages the advice is better here.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from codemode_server.calls.arguments import known_problems, schema_checker
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.domain.calls import ResultKey
from codemode_server.domain.errors import UnknownTool
from codemode_server.executions.preflight.call_checks import Bound, bind, signature_of
from codemode_server.executions.preflight.guesses import advice_on_name, other_language
from codemode_server.executions.preflight.imports import failing_imports, shadowed_imports
from codemode_server.executions.preflight.names import Form, Names
from codemode_server.executions.preflight.reading import Certainty, Reading, line_of, parsed, yields
from codemode_server.sandbox.guest.advice import import_of, starts_fresh, tool_for_module
from codemode_server.sandbox.guest.await_rule import CallUses, Use
from codemode_server.sandbox.guest.similar_names import similar_name

if TYPE_CHECKING:
    from codemode_server.executions.preflight.preflight import CheckContext

_MAX_SCHEMA_SECONDS = 0.2
"""Processor time for all calls of one program; an upstream's schema may be slow on purpose."""
_MAX_FINDINGS = 50
_MAX_LOOKED_AT = 300
_PREDEFINED = frozenset({*dir(builtins), *dir(type("Any", (), {}))}) | {
    *("exit", "quit", "ToolError", "PythonFinalizationError", "WindowsError", "_", "__file__"),
    *("__builtins__", "__annotations__", "__qualname__", "__path__", "__cached__", "__conditional_annotations__"),
    *("__firstlineno__", "__static_attributes__", "__classdict__", "__type_params__"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    line: int
    message: str
    is_sure: bool
    doubted: ResultKey | None = None
    """The result that there can't be, if the finding is right."""


class Findings:
    """What is found in one program, and its `calls` for the checks of arguments and results."""

    def __init__(
        self,
        reading: Reading,
        catalog: Catalog,
        context: CheckContext,
    ) -> None:
        self.reading = reading
        self._context = context
        self.names = Names(reading, catalog)
        self._certainty = Certainty(reading, is_module=context.is_module)
        self._catalog = catalog
        self._schema_seconds = _MAX_SCHEMA_SECONDS
        self.calls = [
            bind(target, node)
            for node in reading.nodes
            if isinstance(node, ast.Call) and isinstance(target := self.names.target(node.func), Tool)
        ]

    def all(self) -> list[Finding]:
        found: dict[tuple[int, str], Finding] = {}
        for finding in islice(self._each(), _MAX_LOOKED_AT):
            known = found.setdefault((finding.line, finding.message), finding)
            if finding.is_sure and not known.is_sure:
                found[finding.line, finding.message] = finding
            if len(found) >= _MAX_FINDINGS:
                break
        return sorted(found.values(), key=lambda finding: finding.line)

    def finding(
        self, node: ast.AST, message: str, doubted: Tool | ResultKey | None = None, *, is_sure: bool = True
    ) -> Finding:
        """Sure only if the failure certainly ends the program. `doubted`: the result that there can't be then."""
        is_sure = is_sure and not self.names.is_dynamic and self._certainty.is_certain(node)
        doubted = ResultKey(doubted.server, doubted.name) if isinstance(doubted, Tool) else doubted
        return Finding(line_of(node), message, is_sure, doubted)

    def _each(self) -> Iterator[Finding]:
        context = self._context
        is_saved = context.may_be_in_workspace
        failing = failing_imports(
            self.reading, context.importable, self._catalog, context.why_no_skill, is_saved, context.packages
        )
        for statement, message in failing:
            if not self._certainty.is_handled(statement):
                yield self.finding(statement, message)
        for node, message in shadowed_imports(self.reading, is_saved):
            yield Finding(line_of(node), message, is_sure=False)
        for unknown in self.names.unknown:
            yield self.finding(unknown.node, unknown.message, unknown.doubted, is_sure=unknown.is_sure)
        for call in self.calls:
            if refused := self._refused(call.tool):
                yield self.finding(call.call, refused, call.tool, is_sure=self._raises_in_place(call.call))
            elif call.problem:
                yield self.finding(call.call, self._problem_of(call) + self._also_refused(call))
            else:
                yield from self._refused_by_schema(call)
        for node in self.reading.nodes:
            if isinstance(node, ast.Call):
                yield from self._called_in_another_form(node)
        if self.names.imports_tools:
            yield from self._forgotten_awaits()
        yield from self._undefined_names()

    def _refused(self, tool: Tool) -> str:
        """The error of every call of the tool, in the words of the gateway; empty if it may be called."""
        refusal = self._context.refusal_of(self._catalog.server(tool.server), tool)
        return refusal.message(f"{tool.server}.{tool.name}") if refusal else ""

    def _problem_of(self, call: Bound) -> str:
        """`random.random()` with a tool `random` is a call of the tool; what was meant is the module."""
        function = call.call.func
        is_member = isinstance(function, ast.Attribute) and isinstance(self.names.target(function.value), Tool)
        return (is_member and tool_for_module(call.tool.server, call.tool.name)) or call.problem

    def _called_in_another_form(self, node: ast.Call) -> Iterator[Finding]:
        target = self.names.target(node.func)
        if not isinstance(target, Form):
            return
        if target.name == "module":
            yield self.finding(node, f"the function is {target.tool.name}; write: {target.tool.import_line}")
        elif refused := self._refused(target.tool):
            # `map` collects the errors of its calls and does not raise them.
            yield self.finding(node, refused, target.tool, is_sure=target.name != "map")

    def _also_refused(self, call: Bound) -> str:
        """Schema violations in the arguments of a call that the guest refuses for others."""
        problems = self._schema_problems(call, is_all=False)
        return f" Also: {'; '.join(problems)}." if problems else ""

    def _refused_by_schema(self, call: Bound) -> Iterator[Finding]:
        is_all = call.is_whole and len(call.constants) == len(call.given)
        if problems := self._schema_problems(call, is_all=is_all):
            message = f"{call.tool.name}(): {'; '.join(problems)}."
            yield self.finding(call.call, message, is_sure=self._raises_in_place(call.call))

    def _schema_problems(self, call: Bound, *, is_all: bool) -> list[str]:
        constants = call.constants
        if not constants or self._schema_seconds <= 0:
            return []
        schema_checker()  # loaded before the clock starts, or the first program would be checked in part
        started = time.thread_time()
        problems = known_problems(call.tool, constants, is_all=is_all)
        self._schema_seconds -= time.thread_time() - started
        return problems

    def _raises_in_place(self, call: ast.Call) -> bool:
        """True if a refused call fails at its place, and not where its awaitable is awaited."""
        is_awaited = isinstance(self.reading.parents.get(call), ast.Await)
        return is_awaited or self.call_uses.use_of(call) is Use.VALUE or self.call_uses.is_awaited_in_place(call)

    @cached_property
    def call_uses(self) -> CallUses:
        return CallUses(self.reading.tree)

    def _forgotten_awaits(self) -> Iterator[Finding]:
        """Statements that make a coroutine of the program's own and drop it: nothing of it ever runs."""
        own = {
            node.name
            for node in self.reading.nodes
            if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list and not yields(node)
        }
        for node in self.reading.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in own:
                continue
            if len(self.names.bound[node.func.id]) != 1:
                continue
            if isinstance(parent := self.reading.parents[node], ast.Expr) and parent is not self.reading.last:
                name = node.func.id
                message = f"{name}() is async and nobody awaits it, so nothing of it runs; write: await {name}(…)"
                yield self.finding(node, message)

    def _undefined_names(self) -> Iterator[Finding]:
        if self.names.star_of_others or self.names.is_dynamic:
            return
        annotations = {
            inner
            for node in self.reading.nodes
            for name in ("annotation", "returns")
            if isinstance(annotation := getattr(node, name, None), ast.AST)
            for inner in ast.walk(annotation)
        }
        undefined: dict[str, ast.Name] = {}
        for node in self.reading.nodes:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node in annotations:
                continue
            if node.id not in self.names.bound and node.id not in _PREDEFINED:
                undefined.setdefault(node.id, node)
        if language := other_language(self.reading.text, self._catalog, undefined):
            yield Finding(1, language, is_sure=True)
            return
        for node in undefined.values():
            hint = self._hint(node)
            if hint or self.names.imports_tools:
                hint = hint or f"; {starts_fresh(*self._context.last_result())}"
                yield self.finding(node, f"name {node.id!r} is not defined{hint}")

    def _hint(self, node: ast.Name) -> str:
        name = node.id
        path: ast.expr = node
        while isinstance(parent := self.reading.parents.get(path), ast.Attribute):
            path = parent
        call = parent if isinstance(parent, ast.Call) and parent.func is path else None
        if guess := advice_on_name(path, call, self._catalog):
            return f"; {guess}"
        if not self.names.imports_tools:
            return ""
        if wanted := import_of(name, is_module=path is not node):
            return f"; write: {wanted}"
        meant = similar_name(name, [known for known in self.names.bound if known])
        return f"; did you mean {meant!r}?" if meant else ""


_MAX_MESSAGE = 300
_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+servers\.([\w-]+)[ \t]+import\b[ \t]*(\([^()]{0,2000}\)|[^\n#;(]*)", re.MULTILINE
)
_NAME = re.compile(r"[^\W\d][\w-]*")
_ARGUMENT = re.compile(rf"(\w+)(?:\.\w+)?\([^()]*?\b({'|'.join(keyword.kwlist)})\s*=(?!=)")


def syntax_findings(code: str, catalog: Catalog) -> list[Finding]:
    """Errors of a program that can't be parsed; empty if neither a name nor another language is the reason."""
    try:
        parsed(code)
    except SyntaxError as error:
        line = error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return []
    else:
        return []
    at_line = "".join(code.split("\n")[line - 1 : line])
    for match in _IMPORT.finditer(code):
        first = code.count("\n", 0, match.start(1)) + 1
        if first <= line <= first + match[0].count("\n") and (advice := _import_advice(match[1], match[2], catalog)):
            return [Finding(first, advice[:_MAX_MESSAGE], is_sure=True)]
    by_name = {tool.name: tool for tool in catalog.tools()}
    called = ((by_name[found[1]], found[2]) for found in _ARGUMENT.finditer(at_line) if found[1] in by_name)
    advice = next((_argument_advice(word, tool) for tool, word in called), "") or other_language(code, catalog)
    return [Finding(line, advice, is_sure=True)] if advice else []


def _import_advice(server_name: str, names: str, catalog: Catalog) -> str:
    """The import with the names that programs use; empty if the names are right."""
    try:
        server = catalog.by_name.get(server_name.replace("-", "_")) or catalog.server(server_name)

        def corrected(match: re.Match[str]) -> str:
            name = match[0]
            if name.isidentifier() and (name == "as" or not keyword.iskeyword(name)):
                return name
            return (server.by_name.get(name) or server.by_name.get(name.replace("-", "_")) or server.tool(name)).name

        right = _NAME.sub(corrected, names)
    except UnknownTool as error:
        return str(error)
    one_line = ", ".join(" ".join(name.split()) for name in right.strip("() \n").split(",") if name.strip())
    is_right = right == names and server.name == server_name
    return "" if is_right else f"not valid Python; write: from servers.{server.name} import {one_line}"


def _argument_advice(word: str, tool: Tool) -> str:
    is_keyword = f"{word!r} is a keyword of Python"
    for parameter in tool.parameters:
        if parameter.raw_name == word:
            return f"{is_keyword}; write {parameter.name}=… in {tool.name}()"
    return f"{is_keyword}, and {tool.name}() has no such argument. {signature_of(tool).usage()}"
