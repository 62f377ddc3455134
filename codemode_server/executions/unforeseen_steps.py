"""Static analysis: branches and loops of a program whose course depends on results that a dry run could not know.

A name counts as unknown if a value that derives from the result of a captured call is assigned to it anywhere in the
program. Reported are the steps that then make calls, or end a loop, a function or the program. It is a hint for the
reader of a plan: what it overlooks is asked about when the plan is applied.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from codemode_server.executions.preflight.reading import Function, Reading, last_name, line_of, read

_MAX_PASSES = 8
_MAX_STEPS = 8
_MAX_LINES = 5
_ADDING = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
_ENDS = ast.Return | ast.Raise | ast.Break | ast.Continue


def unforeseen_steps(code: str, captured: Collection[str]) -> list[str]:
    """A line on each such step. `captured`: names of the tools whose calls were not sent."""
    reading = read(code)
    if reading is None or not captured:
        return []
    found = list(_Program(reading, captured).steps())
    lines = [f"line {number}: {what}" for number, what in dict.fromkeys(found)]
    return [*lines[:_MAX_STEPS], f"and {len(lines) - _MAX_STEPS} more"] if len(lines) > _MAX_STEPS else lines


def unforeseen_values(code: str, captured: Collection[str]) -> str:
    """Which values of the program, output and arguments derive from results of calls that were not sent."""
    reading = read(code)
    places = _Program(reading, captured).values() if reading is not None and captured else []
    return f"computed from results that do not exist yet: {', '.join(places)}" if places else ""


class _Program:
    def __init__(self, reading: Reading, captured: Collection[str]) -> None:
        self._reading = reading
        self._captured = {_plain(name) for name in captured}
        self._tools = set(self._imported())
        self._sources = {local for local, name in self._imported_as() if _plain(name) in self._captured}
        self._unknown: set[str] = set()
        for _ in range(_MAX_PASSES):
            before = len(self._unknown), len(self._tools)
            for node in reading.nodes:
                self._follow(node)
            if (len(self._unknown), len(self._tools)) == before:
                break

    def steps(self) -> Iterator[tuple[int, str]]:
        """The steps with their lines, in the order of the tree."""
        for node in self._reading.nodes:
            match node:
                case ast.If(test=test) | ast.IfExp(test=test) if self._derives(test) and self._matters(node):
                    yield line_of(node), "the branch depends on a result that is not known yet"
                case ast.Match(subject=subject) if self._derives(subject) and self._matters(node):
                    yield line_of(node), "the case depends on a result that is not known yet"
                case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.While(test=source):
                    if self._derives(source) and self._matters(node):
                        yield line_of(node), "how often it makes its calls depends on a result that is not known yet"
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if self._matters(node):
                    if any(self._derives(it) for one in node.generators for it in (one.iter, *one.ifs)):
                        yield line_of(node), "how often it makes its calls depends on a result that is not known yet"
                case ast.Call(func=ast.Attribute(attr="map" | "pages"), args=[source, *_]):
                    if self._makes_call(node) and self._derives(source):
                        yield line_of(node), "the number of its calls depends on a result that is not known yet"

    def values(self) -> list[str]:
        """What the reader of a plan sees of values that derive from captured calls."""
        printed, sent = dict[str, None](), dict[str, None]()
        for node in self._reading.nodes:
            if not isinstance(node, ast.Call):
                continue
            given = (*node.args, *(it.value for it in node.keywords))
            if any(map(self._derives, given)):
                if last_name(node.func) == "print":
                    printed[str(line_of(node))] = None
                elif self._makes_call(node):
                    sent[str(line_of(node))] = None
        found = ["the value"] if self._has_value() else []
        for what, lines in (("output", printed), ("arguments", sent)):
            more = ", …" if len(lines) > _MAX_LINES else ""
            found += [f"{what} (line {', '.join(list(lines)[:_MAX_LINES])}{more})"] if lines else []
        return found

    def _has_value(self) -> bool:
        last = self._reading.last
        if not isinstance(last, ast.Expr) or not self._derives(last.value):
            return False
        return not (isinstance(last.value, ast.Call) and last_name(last.value.func) == "print")

    def _imported_as(self) -> Iterator[tuple[str, str]]:
        """Local name and name of what is imported from `servers`."""
        for node in self._reading.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "servers":
                yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((it.asname or "servers", "servers") for it in node.names if it.name.startswith("servers"))

    def _imported(self) -> Iterator[str]:
        for local, name in self._imported_as():
            if name != "*":
                yield local

    def _follow(self, node: ast.AST) -> None:
        """Note what a node makes unknown, and which functions make calls."""
        match node:
            case ast.Assign(targets=targets, value=value) if self._derives(value):
                self._note(*targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if self._derives(value):
                self._note(target)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._note(*([target] if self._derives(value) else []))
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self._note(*([target] if self._derives(source) else []))
            case ast.comprehension(target=target, iter=source) if self._derives(source):
                self._note(target)
            case ast.Call(func=ast.Attribute(value=ast.Name() as changed, attr=attr), args=args) if attr in _ADDING:
                self._note(*([changed] if any(map(self._derives, args)) else []))
            case ast.Return(value=ast.expr() as value) if self._derives(value):
                self._unknown.update(it.name for it in self._reading.functions(node) if not isinstance(it, ast.Lambda))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if any(map(self._makes_call, ast.walk(node))):
                    self._tools.add(node.name)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                if any(self._derives(it) for it in (*args, *(one.value for one in keywords))):
                    self._note_parameters(name)

    def _note(self, *targets: ast.expr) -> None:
        for target in targets:
            self._unknown.update(it.id for it in ast.walk(target) if isinstance(it, ast.Name))

    def _note_parameters(self, name: str) -> None:
        for node in self._reading.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                self._unknown.update(it.arg for it in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))

    def _derives(self, expression: ast.AST) -> bool:
        """Whether its value may derive from a captured call."""
        return any(
            (isinstance(it, ast.Name) and it.id in self._unknown)
            or (isinstance(it, ast.Call) and self._is_captured(it))
            for it in ast.walk(expression)
        )

    def _is_captured(self, call: ast.Call) -> bool:
        named = [it for it in ast.walk(call.func) if isinstance(it, ast.Name | ast.Attribute)]
        return any(last_name(it) in self._sources or _plain(last_name(it)) in self._captured for it in named)

    def _makes_call(self, node: ast.AST) -> bool:
        """Whether a node is the call of a tool, or of a function that makes one."""
        if not isinstance(node, ast.Call):
            return False
        named = [last_name(it) for it in ast.walk(node.func) if isinstance(it, ast.Name | ast.Attribute)]
        return any(name in self._tools or _plain(name) in self._captured for name in named)

    def _matters(self, step: ast.AST) -> bool:
        """Whether it decides about calls, or about what comes after it."""
        return any(self._makes_call(it) or isinstance(it, _ENDS) for it in _inside(step))


def _inside(step: ast.AST) -> Iterator[ast.AST]:
    """Its nodes without those of functions that are only defined there."""
    left = list(ast.iter_child_nodes(step))
    while left:
        node = left.pop()
        if not isinstance(node, Function):
            yield node
            left += ast.iter_child_nodes(node)


def _plain(name: str) -> str:
    """A tool's raw name and its Python name alike."""
    return re.sub(r"[\W_]", "", name).lower()
