"""A program's text as a syntax tree, and the statements of it that certainly run.

The text is hostile, so its size and the parser's complaints are bounded. The rule of certainty is conservative: a place
is not certain under a `try`, a branch, a loop, a context manager that may suppress exceptions, a lambda or a
comprehension, after a statement that may leave its block, and in a function unless a place that is certain calls it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from codemode_server.sandbox.guest.await_rule import own_nodes
from codemode_server.sandbox.guest.scopes import last_name
from codemode_server.sandbox.guest.source import bound_by, is_main_check

MAX_CHARACTERS = 64 * 1024
"""Longer programs are not checked: nobody writes one by hand, and parsing holds everything else up."""
MAX_NODES = 20_000
"""Programs with more nodes are not checked: formatted code has one for 4 to 8 characters, the densest for 2."""
_BEFORE_A_NODE = ",;\n([{<>="
"""Outside of strings and comments each is followed by a node or more, so that most programs with too many are known
before they are parsed, which no other thread can interrupt."""

EXITS = ("exit", "quit", "_exit")
"""Functions that end the program, by their last names."""


class Reading:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = tree = parsed(text)
        self.nodes = list(islice(ast.walk(tree), MAX_NODES + 1))
        if len(self.nodes) > MAX_NODES:
            raise ValueError("the program has too many parts to be checked")
        self.parents = {child: parent for parent in self.nodes for child in ast.iter_child_nodes(parent)}

    @property
    def last(self) -> ast.stmt | None:
        """The statement whose value is the program's, and is awaited if it is a coroutine."""
        body = self.tree.body
        while body and isinstance(last := body[-1], ast.If) and is_main_check(last.test):
            body = last.body
        return body[-1] if body else None

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """From a node outwards, each parent with the child that it was reached from."""
        while (parent := self.parents.get(node)) is not None:
            yield parent, node
            node = parent

    def lines_naming(self, server: str, tool: str) -> list[int]:
        """The numbers of the lines that name a tool, or what it is imported as; names are those of Python."""
        names = {tool} | {alias for node in self.nodes for alias in _aliases(node, server, tool)}
        return sorted({it.lineno for it in self.nodes if isinstance(it, ast.expr) and _names(it, names)})


def _aliases(node: ast.AST, server: str, tool: str) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module == f"servers.{server}":
        return [it.asname for it in node.names if it.name == tool and it.asname]
    return []


def _names(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name in names
    return False


def read(code: str) -> Reading | None:
    """The program, or None for one that can't be read here: the guest, whose Python is newer, tells what is wrong."""
    if len(code) > MAX_CHARACTERS or sum(map(code.count, _BEFORE_A_NODE)) > MAX_NODES:
        return None
    try:
        return Reading(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in the program is no news for our log
        return ast.parse(text)


def line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def imported_modules(node: ast.AST) -> list[str]:
    """The modules that an import names, without those of relative imports; empty for any other node."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


_NEVER_SUPPRESSING = frozenset(
    {"open", "ThreadPoolExecutor", "TaskGroup", "timeout", "Semaphore", "TemporaryDirectory"}
)
_NEVER_ENTERED = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.TryStar),
)
_HEADS: dict[type[ast.AST], str] = {
    ast.For: "iter",
    ast.AsyncFor: "iter",
    ast.While: "test",
    ast.If: "test",
    ast.Match: "subject",
    ast.Assert: "test",
}
"""The part of each statement that is evaluated in any case."""
_DYNAMIC = frozenset({"exec", "eval", "globals"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Certainty:
    def __init__(self, reading: Reading, *, is_module: bool = False) -> None:
        """`is_module`: the functions of the text count as called."""
        self._reading = reading
        self._is_module = is_module

    def is_certain(self, node: ast.AST) -> bool:
        """True if an exception at this node ends every run of the program."""
        return node in self._certain

    def is_handled(self, node: ast.AST) -> bool:
        """True if a handler, a context that may suppress exceptions or a branch that never runs is around the node."""
        return any(
            (isinstance(parent, (ast.Try, ast.TryStar)) and child in parent.body)
            or (isinstance(parent, ast.If) and _is_never(parent.test))
            or (isinstance(parent, (ast.With, ast.AsyncWith)) and _may_suppress(parent))
            for parent, child in self._reading.above(node)
        )

    @cached_property
    def _certain(self) -> set[ast.AST]:
        body = self._reading.tree.body
        blocks = [body, *(it.body for it in body if self._is_module and isinstance(it, _Function))]
        functions = self._functions
        certain: set[ast.AST] = set()
        while blocks:
            for node in _always_run(blocks.pop()):
                certain.add(node)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                    function = functions[node.func.id]
                    if isinstance(function, ast.FunctionDef) or self._is_awaited(node):
                        blocks.append(functions.pop(node.func.id).body)
        return certain

    def _is_awaited(self, call: ast.Call) -> bool:
        """True if a coroutine is awaited at its place; the program's last expression is awaited in any case."""
        parent = self._reading.parents.get(call)
        if isinstance(parent, ast.Call):
            return last_name(parent.func) in ("run", "run_until_complete")
        return isinstance(parent, ast.Await) or parent is self._reading.last

    @property
    def _functions(self) -> dict[str, _Function]:
        """The functions whose body a call of their name runs; none where the text does not show what names mean."""
        bindings: dict[str, int] = {}
        for node in self._reading.nodes:
            if (isinstance(node, ast.Name) and node.id in _DYNAMIC) or self._brings_others(node):
                return {}
            for name in bound_by(node):
                bindings[name] = bindings.get(name, 0) + 1
        return {
            node.name: node
            for node in self._reading.nodes
            if isinstance(node, _Function) and bindings[node.name] == 1 and not node.decorator_list
            if not yields(node)
        }

    def _brings_others(self, node: ast.AST) -> bool:
        """True for an import of all names of a module that is none of ours."""
        parent = self._reading.parents.get(node) if isinstance(node, ast.alias) and node.name == "*" else None
        return isinstance(parent, ast.ImportFrom) and not (parent.module or "").startswith(("servers.", "codemode"))


def _always_run(block: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a block that run whenever it does, up to a statement that may leave it."""
    for statement in block:
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += _always_evaluated(node)
            if (isinstance(node, (ast.With, ast.AsyncWith)) and not _may_suppress(node)) or (
                isinstance(node, ast.If) and is_main_check(node.test)
            ):
                yield from _always_run(node.body)
        if any(_leaves(node) for node in own_nodes([statement])):
            return


def _always_evaluated(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are evaluated in any case."""
    if isinstance(node, _NEVER_ENTERED) or (isinstance(node, ast.Call) and _collects_exceptions(node)):
        return []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [*node.items]
    head = _HEADS.get(type(node))
    return [getattr(node, head)] if head is not None else [*ast.iter_child_nodes(node)]


def yields(function: _Function) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(function.body))


def _leaves(node: ast.AST) -> bool:
    """True if this node may leave its block."""
    is_exit = isinstance(node, ast.Call) and last_name(node.func) in EXITS
    return is_exit or isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue))


def _is_never(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) or last_name(test) == "TYPE_CHECKING"


def _may_suppress(context: ast.With | ast.AsyncWith) -> bool:
    names = (last_name(it.func) if isinstance(it, ast.Call) else "" for it in (it.context_expr for it in context.items))
    return not all(name in _NEVER_SUPPRESSING for name in names)


def _collects_exceptions(call: ast.Call) -> bool:
    return last_name(call.func) == "gather" and any(it.arg in (None, "return_exceptions") for it in call.keywords)
