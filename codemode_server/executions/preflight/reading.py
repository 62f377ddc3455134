"""A program's text as a syntax tree; the text is hostile, so its size and the parser's complaints are bounded."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Iterator
from itertools import islice

from codemode_server.sandbox.guest.source import await_gathers

MAX_CHARACTERS = 64 * 1024
"""Longer programs are not checked: nobody writes one by hand, and parsing holds everything else up."""
MAX_NODES = 20_000
"""Programs with more nodes are not checked: formatted code has one for 4 to 8 characters, the densest for 2."""
_BEFORE_A_NODE = ",;\n([{<>="
"""Outside of strings and comments each is followed by a node or more, so that most programs with too many are known
before they are parsed, which no other thread can interrupt."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
EXITS = ("exit", "quit", "_exit")
"""Functions that end the program, by their last names."""


class Reading:
    """A program that was parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = tree = parsed(text)
        await_gathers(tree)  # as the guest does
        self.nodes = list(islice(ast.walk(tree), MAX_NODES + 1))
        if len(self.nodes) > MAX_NODES:
            raise ValueError("the program has too many parts to be checked")
        self.parents = {child: parent for parent in self.nodes for child in ast.iter_child_nodes(parent)}

    @property
    def last(self) -> ast.stmt | None:
        """The statement whose value is the program's, and is awaited if it is a coroutine."""
        body = self.tree.body
        while body and isinstance(last := body[-1], ast.If) and asks_for_main(last.test):
            body = last.body
        return body[-1] if body else None

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """From a node outwards, each parent with the child that it was reached from."""
        while (parent := self.parents.get(node)) is not None:
            yield parent, node
            node = parent

    def functions(self, node: ast.AST) -> list[Function]:
        """The functions around a node, the innermost first; decorators and defaults are outside of theirs."""
        found: list[Function] = []
        for parent, child in self.above(node):
            if isinstance(parent, Function) and (child is parent.body or child in _statements(parent)):
                found.append(parent)
        return found


def read(code: str) -> Reading | None:
    """The program, or None for one that can't be read here: the guest, whose Python is newer, tells what is wrong."""
    if len(code) > MAX_CHARACTERS or sum(map(code.count, _BEFORE_A_NODE)) > MAX_NODES:
        return None
    try:
        return Reading(text_of(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def text_of(code: str) -> str:
    """The program without the indentation that all of it has, as the guest runs it."""
    first = next((line for line in code.splitlines() if line.strip()), "")
    return textwrap.dedent(code) if first[:1] in (" ", "\t") else code


def parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in the program is no news for our log
        return ast.parse(text)


def line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def last_name(node: ast.AST) -> str:
    """`b` of `b`, `a.b` and `x().b`; else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def bound_by(node: ast.AST) -> tuple[str, ...]:
    """The names that this node itself gives a meaning, or takes it from."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=other):
            return (other or name.partition(".")[0],)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
    is_type = type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple")  # newer than our oldest Python
    return (str(getattr(node, "name", "")),) if is_type else ()


def _statements(parent: ast.AST) -> list[ast.AST]:
    body = getattr(parent, "body", None)
    return body if isinstance(body, list) else []


def asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
