"""Static analysis: would an exception at a place end the program, or is it caught or never reached?

Only the last may stop a program beforehand. So whatever could catch, hide or skip a failure counts as doing so: a
handler around the place or around a call of the function that it is in, `suppress`, `return_exceptions`, a branch that
asks first what there is.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from codemode_server.executions.preflight.reading import EXITS, Reading, bound_by, last_name
from codemode_server.sandbox.guest.await_rule import CONSUMERS

_PROBES = frozenset({"hasattr", "getattr", "dir", "callable", "find_spec", "search_tools", "__all__", "TYPE_CHECKING"})
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SUPPRESSING = frozenset({"suppress", "ExitStack", "AsyncExitStack", "raises", "assertRaises"})
_TOOL_ERRORS = frozenset({"ToolError", "RuntimeError"})


class Fates:
    """Says for one program where an exception would end it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._functions: dict[str, list[ast.AST]] = {}
        self._unclear: set[str] = set()
        """Names of which the program decides what they are, and so whether they catch something."""
        for node in reading.nodes:
            if isinstance(node, ast.alias):
                self._unclear |= set(bound_by(node)) if node.name.rpartition(".")[2] in _SUPPRESSING else set()
            else:
                self._unclear |= set(bound_by(node))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._functions.setdefault(node.name, []).append(node)

    def ends_the_program(self, node: ast.AST, raises: str, *, is_awaited_elsewhere: bool = False) -> bool:
        """Whether an exception named `raises` at this place surely ends the program if the place is reached."""
        if self._is_skipped(node):
            return False
        catchers = [catcher for catcher in self._catchers if _catches(catcher, raises, self._unclear)]
        around = {parent for parent, child in self._reading.above(node) if _is_guarded(parent, child)}
        if any(catcher in around for catcher in catchers):
            return False
        is_later = any(isinstance(parent, (ast.Lambda, ast.GeneratorExp)) for parent, _ in self._reading.above(node))
        if catchers and (is_awaited_elsewhere or is_later):
            return False
        return all(self._ends(function, catchers) for function in self._named_functions(node))

    def is_asked_for(self, node: ast.AST, name: str) -> bool:
        """Whether a condition around a place asks for this name first: `if "create_issue" in names`, `x.get("url")`."""
        return any(
            isinstance(found, ast.Constant) and found.value == name
            for parent, child in self._reading.above(node)
            for test in _tests(parent, child)
            for found in ast.walk(test)
        )

    def _named_functions(self, node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        found = self._reading.functions(node)
        return [function for function in found if not isinstance(function, ast.Lambda)]

    def _ends(self, function: ast.FunctionDef | ast.AsyncFunctionDef, catchers: list[ast.AST]) -> bool:
        """Whether what escapes this function escapes the program too; if it is called at all."""
        if function.decorator_list or function.name not in self._reached:
            return False
        if not catchers:
            return True
        if function.name in self._references(_guarded_parts(catchers)) or self._is_passed_on(function.name):
            return False
        # A task may be made in one place and awaited in another, where a handler is.
        return not isinstance(function, ast.AsyncFunctionDef) or not any(map(_awaits_a_name, catchers))

    def _is_passed_on(self, name: str) -> bool:
        """Whether the function is handed to something that may call it under a handler of its own."""
        parents = self._reading.parents
        for node in self._reading.nodes:
            if last_name(node) == name and isinstance(getattr(node, "ctx", None), ast.Load):
                parent = parents.get(node)
                if not (isinstance(parent, ast.Call) and parent.func is node):
                    return True
        return False

    @cached_property
    def _reached(self) -> set[str]:
        """Names that are used outside of all functions, or in functions that are."""
        return self._references([self._reading.tree])

    def _references(self, parts: Iterable[ast.AST]) -> set[str]:
        """The names in these parts, and in the functions and classes of those names."""
        found: set[str] = set()
        waiting = [name for part in parts for name in _names_outside_functions(part)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [
                    inner
                    for function in self._functions.get(name, ())
                    for child in ast.iter_child_nodes(function)
                    for inner in _names_outside_functions(child)
                ]
                waiting += [
                    member.name
                    for function in self._functions.get(name, ())
                    if isinstance(function, ast.ClassDef)
                    for member in function.body
                    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and member.name.startswith("__")
                ]
        return found

    @cached_property
    def _catchers(self) -> list[ast.AST]:
        found: list[ast.AST] = []
        for node in self._reading.nodes:
            is_try = isinstance(node, ast.Try) or type(node).__name__ == "TryStar"
            if is_try or isinstance(node, (ast.With, ast.AsyncWith)) or _gathers_exceptions(node):
                found.append(node)
            elif isinstance(node, ast.Call) and last_name(node.func) == "exception" and not node.args:
                found.append(self._reading.tree)  # somewhere a task is asked for its failure
        return found

    def _is_skipped(self, node: ast.AST) -> bool:
        for parent, child in self._reading.above(node):
            test = parent.test if isinstance(parent, (ast.If, ast.IfExp, ast.While)) else None
            if test not in (None, child) and (_is_never(parent, child) or _mentions(test, _PROBES)):
                return True
            if isinstance(parent, ast.BoolOp) and _mentions(parent, _PROBES):
                return True
            if isinstance(child, ast.stmt) and _comes_after_an_end(parent, child):
                return True
        return False


def _tests(parent: ast.AST, child: ast.AST) -> list[ast.expr]:
    """The conditions under which this child of it is reached."""
    match parent:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if child is not test:
            return [test]
        case ast.BoolOp(values=values):
            return [value for value in values if value is not child]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            is_source = isinstance(child, ast.comprehension)
            return [] if is_source else [test for generator in parent.generators for test in generator.ifs]
    return []


def _is_never(parent: Any, child: ast.AST) -> bool:
    """Whether a constant says that this branch is not taken."""
    if not isinstance(parent.test, ast.Constant):
        return False
    is_body = child is parent.body or (isinstance(parent.body, list) and child in parent.body)
    return is_body is not bool(parent.test.value)


def _is_guarded(parent: ast.AST, child: ast.AST) -> bool:
    """Whether the child is where the parent would catch."""
    if isinstance(parent, ast.Try) or type(parent).__name__ == "TryStar":
        return child in parent.body or child in parent.finalbody  # type: ignore[attr-defined]
    return True


def _guarded_parts(catchers: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for catcher in catchers:
        if isinstance(catcher, (ast.Try, ast.With, ast.AsyncWith)) or type(catcher).__name__ == "TryStar":
            yield from catcher.body  # type: ignore[attr-defined]
        else:
            yield catcher


def _catches(catcher: ast.AST, raises: str, unclear: set[str]) -> bool:
    if isinstance(catcher, (ast.With, ast.AsyncWith)):
        return any(_may_suppress(item.context_expr, unclear) for item in catcher.items)
    if isinstance(catcher, ast.Try) or type(catcher).__name__ == "TryStar":
        if any(isinstance(node, _ENDS[:1] + _ENDS[2:]) for last in catcher.finalbody for node in ast.walk(last)):  # type: ignore[attr-defined]
            return True
        return any(_handles(handler.type, raises) for handler in catcher.handlers)  # type: ignore[attr-defined]
    return True


def _may_suppress(context: ast.expr, unclear: set[str]) -> bool:
    name = last_name(context.func) if isinstance(context, ast.Call) else last_name(context)
    return name in _SUPPRESSING or name in unclear


def _handles(kind: ast.expr | None, raises: str) -> bool:
    """Whether a handler of this kind may take the exception; a kind that we don't know may."""
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(_handles(member, raises) for member in kind.elts)
    name = last_name(kind)
    if name in _TOOL_ERRORS or raises == name:
        return raises in (*_TOOL_ERRORS, name)
    known = getattr(builtins, name, None)
    if not isinstance(known, type):
        return name not in ("JSONDecodeError", "TimeoutError", "CancelledError", "InvalidOperation", "StopTest")
    wanted = getattr(builtins, raises, RuntimeError)  # ToolError is a RuntimeError
    return isinstance(wanted, type) and issubclass(wanted, known)


def _gathers_exceptions(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if last_name(node.func) in ("wait", "as_completed"):
        return True
    return any(
        (keyword.arg == "return_exceptions" or (keyword.arg is None and last_name(node.func) == "gather"))
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
        for keyword in node.keywords
    )


def _awaits_a_name(catcher: ast.AST) -> bool:
    """Whether what is awaited under a handler is something made elsewhere."""
    return any(
        isinstance(node, (ast.Await, ast.AsyncWith, ast.AsyncFor))
        and not (isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and not _takes_names(node.value))
        for part in _guarded_parts([catcher])
        for node in ast.walk(part)
    )


def _takes_names(call: ast.Call) -> bool:
    """`gather(*tasks)`, `wait_for(task, 5)`: what is awaited was made before."""
    return last_name(call.func) in CONSUMERS and any(not isinstance(found, ast.Call) for found in call.args)


def _names_outside_functions(part: ast.AST) -> Iterator[str]:
    """Names that are read in a part; what functions in it read is theirs, but lambdas and decorators belong to it."""
    waiting = [part]
    while waiting:
        node = waiting.pop()
        name = last_name(node)
        if name and isinstance(getattr(node, "ctx", None), ast.Load):
            yield name
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*node.decorator_list, *node.args.defaults]
            waiting += [default for default in node.args.kw_defaults if default is not None]
        else:
            waiting += ast.iter_child_nodes(node)


def _mentions(test: ast.AST | None, words: frozenset[str]) -> bool:
    return any(last_name(node) in words for node in (ast.walk(test) if test else ()))


def _comes_after_an_end(parent: ast.AST, child: ast.stmt) -> bool:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and child in block:
            return any(isinstance(before, _ENDS) or _exits(before) for before in block[: block.index(child)])
    return False


def _exits(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and last_name(statement.value.func) in EXITS
    )
