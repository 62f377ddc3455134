"""Stubs: what a program imports from `servers` and calls. A stub's source says its name, parameters and documentation;
its body is never run.

Every stub has three more forms: `raw` gives results whole, `map` calls it for many items, `pages` turns pages.

How a stub takes arguments says `binding`; whether it blocks or gives something to await says
`await_rule`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, cast

from .await_rule import is_async_frame
from .binding import MAP_TAKES_A_LIST, Signature, bind, bind_shared, check_required, type_takes_objects
from .calls import Calls, PendingCall
from .files import File
from .mapping import PendingMap, prepared
from .paging import PageParameters, Pages
from .value_descriptions import shape
from .values import resolve


class Stub:
    def __init__(
        self, calls: Calls, function: types.FunctionType, server: str, name: str, renamed: Mapping[str, str]
    ) -> None:
        functools.update_wrapper(self, function)
        self._calls = calls
        self._server = server
        self._name = name
        self._tool_names = renamed
        """By Python name, for the parameters whose names differ."""
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        self.signature = Signature(
            name,
            names,
            names[: len(names) - len(function.__defaults__ or ())],
            bool(code.co_flags & inspect.CO_VARKEYWORDS),
            functools.partial(_takes_objects, function),
            {tool_name: python for python, tool_name in renamed.items()},
        )
        self._function = function
        self._is_raw = False
        if not hasattr(type(self), name):
            setattr(self, name, self)  # `import servers.github.create_issue as ci; ci.create_issue(…)`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.give(self.begin(*args, **kwargs), self._name, sys._getframe(1))

    def awaited(self, is_held: bool, *args: Any, **kwargs: Any) -> PendingCall:
        """The call for code that awaits it somewhere, sent at once or when it is awaited (see `await_rule`)."""
        send = self._prepared(bind(self.signature, args, kwargs.items(), required=self.signature.required))
        return self._calls.pending(PendingCall(self._calls, send if is_held else send(), self._name))

    def begin(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send the call and give its future; what thread pools and `asyncio.to_thread` use."""
        return self._prepared(bind(self.signature, args, kwargs.items(), required=self.signature.required))()

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
        shared = bind_shared(self.signature, common.items())
        free = [name for name in self.signature.names if name not in shared]
        required = [name for name in self.signature.required if name not in shared]

        def prepare(item: Any) -> Callable[[], Future[Any]]:
            args = item if isinstance(item, tuple) else (item,)
            return self._prepared(shared | bind(self.signature, args, (), names=free, required=required))

        mapping = PendingMap(self._calls, *prepared(self._name, items, prepare), concurrency)
        return self._calls.pending(mapping) if is_async_frame(sys._getframe(1)) else resolve(mapping)

    def pages(self, *args: Any, **kwargs: Any) -> Pages:
        """The items of all pages: see `paging`."""
        if self._is_raw:
            raise TypeError(f"{self._name}.raw has no pages; take whole results from {self._name}.pages(…).by_page()")
        bound = bind(self.signature, args, kwargs.items())
        defaults = self._function.__defaults__ or ()
        padded = [None] * (len(self.signature.names) - len(defaults)) + [*defaults]
        pages = PageParameters(self._name, dict(zip(self.signature.names, padded, strict=True)))
        for name, first in ((pages.number, pages.first_number), (pages.offset, 0)):
            if name in self.signature.required and name not in bound:
                bound[name] = first
        check_required(self.signature, bound, besides=pages.cursor or "")
        return Pages(pages, lambda arguments: self._prepared(arguments)(), self._calls.link, bound)

    @property
    def how_to_call(self) -> str:
        return f"it is the tool servers.{self._server}.{self._name}, to be called: {self._name}(…)"

    def __repr__(self) -> str:
        return f"<tool servers.{self._server}.{self._name}{'.raw' if self._is_raw else ''}>"

    def __get__(self, instance: object, owner: type | None = None) -> Stub:
        return self  # as a class attribute it stays a plain function, without self

    def _prepared(self, bound: dict[str, Any]) -> Callable[[], Future[Any]]:
        check_required(self.signature, bound)
        arguments = {self._tool_names.get(name, name): value for name, value in bound.items()}
        return self._calls.prepare(self._server, self._name, arguments, self._name, raw=self._is_raw)


def for_awaiting(function: Any, is_held: bool) -> Any:
    """A tool, or a partial of one, as code calls it that awaits the result elsewhere; anything else as it is."""
    if isinstance(function, functools.partial):
        return functools.partial(for_awaiting(function.func, is_held), *function.args, **function.keywords)
    return functools.partial(function.awaited, is_held) if isinstance(function, Stub) else function


def stub_decorator(calls: Calls) -> Callable[..., Callable[[types.FunctionType], Stub]]:
    """`servers.tool` for one link."""

    def tool(server: str, name: str, renamed: Mapping[str, str] | None = None) -> Callable[[types.FunctionType], Stub]:
        return lambda function: Stub(calls, function, server, name, renamed or {})

    return tool


def _items_of(name: str, items: Any) -> Iterable[Any]:
    """The items of a map; raises TypeError for one text, one object, and what has no items."""
    if isinstance(items, PendingCall):
        items = resolve(items)
    if not isinstance(items, (str, bytes, Mapping, File)) and hasattr(items, "__iter__"):
        return cast("Iterable[Any]", items)
    what = f"the tool {items._name}, which is not called" if isinstance(items, Stub) else shape(items)
    raise TypeError(f"{name}{MAP_TAKES_A_LIST}, not {what}")


def _takes_objects(function: types.FunctionType, parameter: str) -> bool:
    annotation = ast.parse(function.__annotations__.get(parameter, "Any"), mode="eval").body
    return type_takes_objects(annotation, lambda name: hasattr(function.__globals__.get(name), "__total__"))
