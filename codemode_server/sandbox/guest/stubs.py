"""Stubs: what a program imports from `servers` and calls. A stub's source says its name, parameters and documentation;
its body is never run.

Every stub has three more forms: `raw` gives results whole, `map` calls it for many items, `pages` turns pages.

How a stub is called: by keyword under Python-safe names (the tool's own names pass too), by position in order, or with
one dict of arguments. Whether it blocks or gives something to await depends on who calls it: see `calls`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, cast

from .advice import MAP_COLLECTS_ERRORS, MAP_TAKES_A_LIST, usage
from .calls import Calls, PendingCall, called_from_async, resolve
from .files import File
from .mapping import PendingMap
from .page_parameters import Ways
from .paging import Pages
from .similar_names import similar_name
from .value_descriptions import shape

_TAKES_OBJECTS = {"Any", "dict", "Dict", "object", "Mapping", "MutableMapping"}


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
        self._defaults = {p.name: p.default for p in parameters}
        self._required = [name for name in self._names if self._defaults[name] is inspect.Parameter.empty]
        self._open = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        self._function = function
        self._is_raw = False
        if not hasattr(type(self), name):
            setattr(self, name, self)  # `import servers.github.create_issue as ci; ci.create_issue(…)`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.give(self.begin(*args, **kwargs), self._name, sys._getframe(1))

    def begin(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send the call and give its future; what thread pools and `asyncio.to_thread` use."""
        return self._send(self._bind(args, kwargs, self._names))

    @functools.cached_property
    def raw(self) -> Stub:
        """The same tool, giving its results whole, as the upstream sends them."""
        raw = Stub.__new__(Stub)
        raw.__dict__.update(self.__dict__, _is_raw=True)
        return raw

    def map(self, items: Iterable[Any] | None = None, /, *, concurrency: int = 8, **common: Any) -> Any:
        """A call for each item, some at a time: see `mapping`."""
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency={concurrency!r} is no number of calls")
        items = _items_of(self._name, items)
        if "return_exceptions" in common and not (self._open or "return_exceptions" in self._names):
            raise TypeError(f"{self._name}{MAP_COLLECTS_ERRORS}")
        shared = self._bind((), common, self._names, form=".map")
        free = [name for name in self._names if name not in shared]

        def begin(item: Any) -> Future[Any]:
            args = item if isinstance(item, tuple) else (item,)
            return self._send(shared | self._bind(args, {}, free))

        mapping = PendingMap(self._calls, self._name, begin, items, concurrency)
        if not called_from_async(sys._getframe(1)):
            return resolve(mapping)
        mapping.step()
        return self._calls.pending(mapping)

    def pages(self, *args: Any, **kwargs: Any) -> Pages:
        """The items of all pages: see `paging`."""
        if self._is_raw:
            raise TypeError(f"{self._name}.raw has no pages; take whole results from {self._name}.pages(…).by_page()")
        bound = self._bind(args, kwargs, self._names)
        kinds = _annotations(self._function)
        parameters = {name: (kinds.get(name, "Any"), self._defaults[name]) for name in self._names}
        ways = Ways(self._name, parameters, self._function.__doc__ or "")
        for name, first in ((ways.number, ways.first_number), (ways.offset, int)):
            if name in self._required and name not in bound:
                bound[name] = first()
        self._check_required([name for name in self._required if name not in bound and name != ways.cursor])
        return Pages(ways, self._send, self._calls.link, bound)

    def __repr__(self) -> str:
        return f"<tool servers.{self._server}.{self._name}{'.raw' if self._is_raw else ''}>"

    def __get__(self, instance: object, owner: type | None = None) -> Stub:
        return self  # kept in a class it stays a plain function, without self

    def _send(self, bound: dict[str, Any]) -> Future[Any]:
        self._check_required([name for name in self._required if name not in bound])
        arguments = {self._raw.get(name, name): value for name, value in bound.items()}
        return self._calls.begin(self._server, self._name, arguments, self._name, raw=self._is_raw)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str], form: str = "") -> dict[str, Any]:
        """What is given, under the parameters' names; `names` are those that positions stand for."""
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping) and self._is_all_arguments(args[0], names):
            kwargs, args = dict(args[0]), ()
        if len(args) > len(names):
            raise TypeError(f"{self._name}() takes {len(names)} arguments, not {len(args)}. {self._usage()}")
        bound = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            name = self._python.get(key, key)
            if name in bound:
                raise TypeError(f"{self._name}() got argument {name!r} twice. {self._usage()}")
            if name not in self._names and not self._open:
                meant = self._meant(key, [*bound, *kwargs])
                raise TypeError(f"{self._name}{form}() has no argument {key!r}{meant} {self._usage(form)}")
            bound[name] = value
        return {name: value for name, value in bound.items() if value is not ...}

    def _check_required(self, missing: list[str]) -> None:
        if missing:
            raise TypeError(f"{self._name}() is missing {', '.join(map(repr, missing))}. {self._usage()}")

    def _is_all_arguments(self, given: Mapping[Any, Any], names: list[str]) -> bool:
        """Whether one dict is all the arguments, rather than the first of them."""
        if not names:
            return True
        known = {*self._names, *self._python}
        return not self._takes_objects(names[0]) or (bool(given) and all(key in known for key in given))

    def _takes_objects(self, name: str) -> bool:
        annotation = _annotations(self._function).get(name, "Any")
        return _takes_objects(ast.parse(annotation, mode="eval").body, self._function.__globals__)

    def _meant(self, name: str, given: list[str]) -> str:
        free = [known for known in self._names if known not in given and self._raw.get(known) not in given]
        meant = similar_name(name, free, preferred=[known for known in free if known in self._required])
        return f"; did you mean {meant!r}?" if meant else "."

    def _usage(self, form: str = "") -> str:
        return usage(self._names, self._required, is_open=self._open, form=form)


def stub_decorator(calls: Calls) -> Callable[..., Callable[[Callable[..., Any]], Stub]]:
    """`servers.tool` for one link."""

    def tool(server: str, name: str, renamed: Mapping[str, str] | None = None) -> Callable[[Callable[..., Any]], Stub]:
        return lambda function: Stub(calls, function, server, name, renamed or {})

    return tool


def _items_of(name: str, items: Any) -> Iterable[Any]:
    """The items of a map.

    Raises:
        TypeError: they are one text, one object, or nothing that has items.
    """
    if isinstance(items, PendingCall):
        items = resolve(items)
    if not isinstance(items, (str, bytes, Mapping, File)) and hasattr(items, "__iter__"):
        return cast("Iterable[Any]", items)
    what = f"the tool {items._name}, which is not called" if isinstance(items, Stub) else shape(items)
    raise TypeError(f"{name}{MAP_TAKES_A_LIST}, not {what}")


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
