"""The text of a skill from a function of the program: the function, and what it uses of the program's text.

Imports, other functions, classes and constants come along. What the program computes does not: a skill that ran in
another program would not have it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import symtable
from collections.abc import Callable, Iterator
from typing import Any

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WAY = "or write the whole file: open('/skills/<name>.py', 'w')"


def text_of(function: Callable[..., Any]) -> tuple[str, str]:
    """The name of the skill and its text.

    Raises:
        TypeError: it is no function.
        ValueError: its text can't stand alone.
    """
    function = inspect.unwrap(function)
    if not inspect.isfunction(function):
        raise TypeError(
            f"skills.save() takes a function that the program defines, not {type(function).__name__}; {_WAY}"
        )
    name, code = function.__name__, function.__code__
    text = "".join(linecache.getlines(code.co_filename))
    body = ast.parse(text).body if text else []
    found = next((it for it in body if isinstance(it, _DEFINITIONS) and _first_line(it) == code.co_firstlineno), None)
    if found is None:
        raise ValueError(f"skills.save() takes a function that is defined at the top level of the program; {_WAY}")
    return name, _Module(text, body).with_all_that_it_uses(found)


class _Module:
    """The statements of a program at top level, and what each defines."""

    def __init__(self, text: str, body: list[ast.stmt]) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._body = body
        self._by_name = {name: statement for statement in body for name in _defined(statement)}
        self._computed = {
            node.id: node.lineno
            for statement in body
            for node in _own_nodes(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }

    def with_all_that_it_uses(self, function: ast.stmt) -> str:
        """The text of a module that defines it."""
        needed: dict[ast.stmt, set[str]] = {function: set()}
        waiting = [function]
        while waiting:
            user = waiting.pop()
            for name in sorted(_used(user)):
                statement = self._by_name.get(name)
                if statement is None or (isinstance(statement, (ast.Assign, ast.AnnAssign)) and _computes(statement)):
                    if name in self._computed and not hasattr(builtins, name):
                        raise ValueError(
                            f"{name!r} is computed by the program (line {self._computed[name]}), and a skill would not "
                            "have it; pass it as a parameter"
                        )
                    continue
                if statement not in needed:
                    needed[statement] = set()
                    waiting.append(statement)
                needed[statement].add(name)
        imports = [self._import(it, needed[it]) for it in self._body if it in needed and _is_import(it)]
        others = [self._source(it) for it in self._body if it in needed and not _is_import(it)]
        future = [ast.unparse(it) for it in self._body if isinstance(it, ast.ImportFrom) and it.module == "__future__"]
        head = "\n".join([*future, *imports])
        return "\n\n\n".join([*([head] if head else []), *others]) + "\n"

    def _import(self, statement: ast.stmt, names: set[str]) -> str:
        """The import, without what is not used."""
        assert isinstance(statement, (ast.Import, ast.ImportFrom))  # noqa: S101
        aliases = [it for it in statement.names if (it.asname or it.name.partition(".")[0]) in names]
        if isinstance(statement, ast.Import):
            return ast.unparse(ast.Import(aliases))
        return ast.unparse(ast.ImportFrom(statement.module, aliases, statement.level))

    def _source(self, statement: ast.stmt) -> str:
        if isinstance(statement, _DEFINITIONS):
            return "\n".join(self._lines[_first_line(statement) - 1 : statement.end_lineno])
        return ast.get_source_segment(self._text, statement) or ast.unparse(statement)


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(it.lineno for it in node.decorator_list)])


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _defined(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at top level defines."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, _DEFINITIONS):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes that run with the program, not within its functions and classes."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (*_DEFINITIONS, ast.Lambda)):
            yield node
            waiting += ast.iter_child_nodes(node)


def _computes(statement: ast.Assign | ast.AnnAssign) -> bool:
    """True if a value takes more than constants."""
    return statement.value is not None and any(
        isinstance(node, (ast.Call, ast.Await, ast.Name, ast.Attribute, ast.NamedExpr, ast.comprehension))
        and not (isinstance(node, ast.Name) and hasattr(builtins, node.id))
        and not _is_pattern(node)
        for node in ast.walk(statement.value)
        if not _is_part_of_pattern(node, statement.value)
    )


def _is_pattern(node: ast.AST) -> bool:
    """`re.compile(…)`, the one call of which constants are made so often."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "frozenset")


def _is_part_of_pattern(node: ast.AST, value: ast.expr) -> bool:
    return _is_pattern(value) and any(node is inner for inner in ast.walk(value.func))  # type: ignore[attr-defined]


def _used(statement: ast.stmt) -> set[str]:
    """The global names that a definition uses."""
    names: set[str] = set()
    waiting = [(symtable.symtable(ast.unparse(statement), "skill", "exec"), True)]
    while waiting:
        table, is_top = waiting.pop()
        names |= {it.get_name() for it in table.get_symbols() if it.is_referenced() and (is_top or it.is_global())}
        waiting += [(child, False) for child in table.get_children()]
    return names - (set(_defined(statement)) if not _is_import(statement) else set())
