"""Stubs: what a program imports from `servers` and calls. A stub's source says its name, parameters and documentation;
its body is never run.

How a stub is called: by keyword under Python-safe names (the tool's own names pass too), by position in order, or with
one dict of arguments. Whether it blocks or gives something to await depends on who calls it: see `calls`.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from .calls import Calls

_TAKES_OBJECTS = {"Any", "dict", "Dict", "object", "Mapping", "MutableMapping"}
_MOST_NAMES = 30


class Stub:
    """One tool as a function."""

    def __init__(
        self, calls: Calls, function: Callable[..., Any], server: str, name: str, renamed: Mapping[str, str]
    ) -> None:
        functools.update_wrapper(self, function)
        self._calls = calls
        self._server = server
        self._name = name
        self._raw = dict(renamed)
        self._python = {raw: python for python, raw in self._raw.items()}
        parameters = inspect.signature(function).parameters.values()
        self._names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
        self._required = [p.name for p in parameters if p.name in self._names and p.default is p.empty]
        self._open = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        self._function = function
        setattr(self, name, self)  # `import servers.github.create_issue as ci; ci.create_issue(…)`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.give(self.begin(*args, **kwargs), self._name, sys._getframe(1))

    def begin(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send the call and give its future; what thread pools and `asyncio.to_thread` use."""
        return self._calls.begin(self._server, self._name, self._bind(args, kwargs), self._name)

    def __repr__(self) -> str:
        return f"<tool servers.{self._server}.{self._name}>"

    def __get__(self, instance: object, owner: type | None = None) -> Stub:
        return self  # kept in a class it stays a plain function, without self

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping) and self._is_all_arguments(args[0]):
            kwargs, args = dict(args[0]), ()
        if len(args) > len(self._names):
            raise TypeError(f"{self._name}() takes {len(self._names)} arguments, not {len(args)}. {self._usage()}")
        bound = dict(zip(self._names, args, strict=False))
        for key, value in kwargs.items():
            name = self._python.get(key, key)
            if name in bound:
                raise TypeError(f"{self._name}() got argument {name!r} twice. {self._usage()}")
            if name not in self._names and not self._open:
                raise TypeError(f"{self._name}() has no argument {key!r}{self._nearest(key)} {self._usage()}")
            bound[name] = value
        bound = {name: value for name, value in bound.items() if value is not ...}
        missing = [name for name in self._required if name not in bound]
        if missing:
            raise TypeError(f"{self._name}() misses {', '.join(map(repr, missing))}. {self._usage()}")
        return {self._raw.get(name, name): value for name, value in bound.items()}

    def _is_all_arguments(self, given: Mapping[Any, Any]) -> bool:
        """Whether one dict is all the arguments, rather than the first of them."""
        if not self._names:
            return True
        known = {*self._names, *self._python}
        return not self._first_takes_objects() or (bool(given) and all(key in known for key in given))

    def _first_takes_objects(self) -> bool:
        annotation = _annotations(self._function).get(self._names[0], "Any")
        return _takes_objects(ast.parse(annotation, mode="eval").body, self._function.__globals__)

    def _nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, [*self._names, *self._python], n=1, cutoff=0.5)
        return f"; did you mean {near[0]!r}?" if near else "."

    def _usage(self) -> str:
        if not self._names:
            return "It takes any keywords." if self._open else "It takes no arguments."
        shown = [name if name in self._required else f"[{name}]" for name in self._names[:_MOST_NAMES]]
        return f"It takes {', '.join(shown)}{', …' if len(self._names) > _MOST_NAMES else ''}."


def stub_decorator(calls: Calls) -> Callable[..., Callable[[Callable[..., Any]], Stub]]:
    """`servers.tool` for one link."""

    def tool(server: str, name: str, renamed: Mapping[str, str] | None = None) -> Callable[[Callable[..., Any]], Stub]:
        return lambda function: Stub(calls, function, server, name, renamed or {})

    return tool


def _annotations(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations as source text; evaluating them could fail, and text is all that is asked."""
    try:
        import annotationlib  # type: ignore[import-not-found]
    except ImportError:
        found = inspect.get_annotations(function)
    else:
        found = annotationlib.get_annotations(function, format=annotationlib.Format.STRING)
    return {name: value if isinstance(value, str) else inspect.formatannotation(value) for name, value in found.items()}


def _takes_objects(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    if isinstance(node, ast.BinOp):
        return _takes_objects(node.left, scope) or _takes_objects(node.right, scope)
    if isinstance(node, ast.Subscript):
        name = _last_name(node.value)
        if name in ("Optional", "Union", "Annotated", "NotRequired", "Required"):
            members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return any(_takes_objects(member, scope) for member in members)
        return name in _TAKES_OBJECTS
    name = _last_name(node)
    return name in _TAKES_OBJECTS or hasattr(scope.get(name), "__total__")


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return str(node.value).rpartition(".")[2]
    return node.id if isinstance(node, ast.Name) else ""
