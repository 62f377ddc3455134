"""One call to a tool: sent at once, and then awaited, waited for or used, by the rule in `await_rule`.

A call whose result was never used is waited for at the program's end; if it failed, the program has failed.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
import sys
import threading
import types
from collections.abc import Callable, Generator
from concurrent.futures import Future
from types import FrameType
from typing import Any

from .await_rule import is_async_frame
from .files import File, from_reply
from .link import PROGRAM_FILE, Link, Refused, to_json
from .value_descriptions import remember_sample
from .values import Unfinished, forms_in, resolve, to_argument

READING = "resources.read"
"""The reading of a resource, as errors name it."""
MAX_URI = 8_192
"""Characters of a URI that the host reads, as in `frames`."""
_MAX_WARNINGS = 5


class ToolError(RuntimeError):
    """A call to a tool did not succeed; the message says why and what is valid."""

    def __init__(self, message: str = "", server: str = "", tool: str = "", kind: str = "call_failed") -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.kind = kind
        self.items: list[Any] = []
        """For `.pages()` errors: the items read before the failure."""
        self.page: Any = None
        """For `.pages()` errors: the page that can't be read."""


class PendingCall(Unfinished):
    """A call on its way, made in async code: awaitable, accepted as a coroutine, and its value once it is used."""

    __slots__ = ("_calls", "_sent", "_steps", "_title")

    def __init__(self, calls: Calls, sent: Future[Any] | Callable[[], Future[Any]], title: str) -> None:
        self._calls = calls
        self._sent = sent
        """The future of the call, or what sends it once it is awaited or used."""
        self._title = title
        self._steps: Generator[Any, None, Any] | None = None

    @property
    def _future(self) -> Future[Any]:
        if not isinstance(self._sent, Future):
            with self._calls.sending:
                if not isinstance(self._sent, Future):
                    self._sent = self._sent()
        return self._sent

    def __await__(self) -> Generator[Any, None, Any]:
        self._calls.unclaimed.pop(id(self), None)
        return (yield from self._wait().__await__())

    async def _wait(self) -> Any:
        return await asyncio.wrap_future(self._future)

    def _value(self) -> Any:
        self._calls.unclaimed.pop(id(self), None)
        return self._calls.link.wait(self._future)

    # What makes it a coroutine for asyncio.create_task and TaskGroup.create_task.
    def send(self, value: Any) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "cr_", "gi_", "ag_")):
            raise AttributeError(name)  # asking what kind of object it is does not use the value
        return getattr(resolve(self), name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """In the program's own code the class of the value, so that `isinstance(call, dict)` holds; libraries that ask
        whether it can be awaited see that it can."""
        caller = sys._getframe(1)
        if caller.f_code.co_name == "iscoroutine":
            return types.CoroutineType
        return type(resolve(self)) if caller.f_code.co_filename == PROGRAM_FILE else PendingCall

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return repr(resolve(self))

    def __str__(self) -> str:
        return str(resolve(self))

    def __format__(self, spec: str) -> str:
        return format(resolve(self), spec)


def _as_value(function: Callable[..., Any]) -> Callable[..., Any]:
    def use(self: PendingCall, *others: Any) -> Any:
        return function(resolve(self), *(resolve(other) for other in others))

    return use


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def use(self: PendingCall, other: Any) -> Any:
        return function(resolve(other), resolve(self))

    return use


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
for _name in (*_ARITHMETIC, "and_", "or_", "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(PendingCall, f"__{_name.rstrip('_')}__", _as_value(getattr(operator, _name)))
for _name in (*_ARITHMETIC, "and_", "or_"):
    setattr(PendingCall, f"__r{_name.rstrip('_')}__", _reflected(getattr(operator, _name)))
_USES: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "contains": operator.contains,
    "len": len,
    "iter": iter,
    "reversed": reversed,
    "bool": bool,
    "int": int,
    "float": float,
    "index": operator.index,
    "neg": operator.neg,
    "abs": abs,
    "round": round,
    "bytes": bytes,
}
for _name, _function in _USES.items():
    setattr(PendingCall, f"__{_name}__", _as_value(_function))


async def finish(value: Any) -> Any:
    """Like `resolve`, for async code; `source` puts it where an `await` was forgotten."""
    return await value if isinstance(value, PendingCall) else value


def awaitable(value: Any) -> Any:
    """The value for an `await` of the program: one that can't be awaited, such as a result, is its own result."""
    return value if inspect.isawaitable(value) else finish(value)


async def handed_over(value: Any, *receivers: Any) -> Any:
    """A call for a function that gets it and for those beside it: itself if one of them awaits, else its value."""
    return value if any(map(_may_await, receivers)) else await finish(value)


def _may_await(function: Any) -> bool:
    """True for coroutine functions, for what asyncio has, and for plain functions of the program."""
    while isinstance(function, functools.partial):
        function = function.func
    if any(inspect.iscoroutinefunction(one) for one in (function, getattr(type(function), "__call__", None))):  # noqa: B004
        return True
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    return inspect.isasyncgenfunction(function) or str(module).partition(".")[0] in ("asyncio", "__main__")


def plain_arguments(title: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a tool gets them; raises TypeError for one that has no form in JSON."""
    return {name: to_argument(value, f"{title}() can't send argument {name!r}") for name, value in arguments.items()}


class Calls:
    def __init__(self, link: Link) -> None:
        self.link = link
        self.sending = threading.RLock()
        """Held to send a call that two threads may use."""
        self.unclaimed: dict[int, PendingCall] = {}
        self.maps: list[Any] = []
        """The results of each `map`; at the end a warning names the errors that the program never read."""

    def prepare(
        self, server: str, tool: str, arguments: dict[str, Any], title: str, *, raw: bool = False
    ) -> Callable[[], Future[Any]]:
        """Function that sends a call; its future gives the tool's value, or its `raw` result, or raises `ToolError`.
        Raises `TypeError` if an argument has no form in JSON, `ValueError` if one has half a character."""
        plain = plain_arguments(title, arguments)
        try:
            text, forms = to_json(plain, "strict"), [*forms_in(plain)]
        except UnicodeError:
            message = f"{title}() can't send half a character (a lone surrogate, as \\ud800); remove it from the text"
            raise ValueError(message) from None
        return lambda: self._settled_by(self.link.call(server, tool, text, forms, raw=raw), server, tool, is_raw=raw)

    def begin_read(self, server: str, uri: str, arguments: dict[str, Any] | None = None) -> Future[Any]:
        """Have a resource read; the future gives its files or raises `ToolError`. `arguments`: those of a template."""
        if len(uri) > MAX_URI:
            message = f"a URI of {len(uri):,} characters can't be fetched (at most {MAX_URI:,}); let a tool read it"
            raise ToolError(message, server, READING, "too_long")
        more = {"arguments": arguments} if arguments else {}
        return self._settled_by(self.link.request("read", server=server, uri=uri, **more), server, READING)

    def _settled_by(self, answer: Future[Any], server: str, tool: str, *, is_raw: bool = False) -> Future[Any]:
        result: Future[Any] = Future()
        origin = Origin(self, server)

        def settle(answer: Future[Any]) -> None:
            if answer.cancelled() or not result.set_running_or_notify_cancel():
                return
            try:
                value, encoding = answer.result()
                taken = from_reply(value, encoding, origin, is_raw=is_raw)
                remember_sample(tool, taken)  # before the program has it, and may change it
            except Refused as refusal:
                result.set_exception(ToolError(str(refusal), server, tool, refusal.kind))
            except Exception as error:  # noqa: BLE001 - memory, or a bug: whoever waits must not wait for ever
                result.set_exception(error)
            else:
                result.set_result(taken)

        def drop(result: Future[Any]) -> None:
            if result.cancelled():
                answer.cancel()  # a call that still waits for its turn is not made

        answer.add_done_callback(settle)
        result.add_done_callback(drop)
        return result

    def give(self, future: Future[Any], title: str, frame: FrameType | None) -> Any:
        """Result of a call: in plain code the value, in async code something to await."""
        if is_async_frame(frame):
            return self.pending(PendingCall(self, future, title))
        return self.link.wait(future)

    def call(self, server: str, tool: str, arguments: dict[str, Any], frame: FrameType | None) -> Any:
        return self.give(self.prepare(server, tool, arguments, tool)(), tool, frame)

    def pending(self, call: PendingCall) -> PendingCall:
        self.unclaimed[id(call)] = call
        return call

    def settle_unclaimed(self) -> None:
        """Wait for the calls whose result was never used; name those that nobody had sent. Raises `ToolError` if one
        of them failed."""
        unsent: list[str] = []
        while calls := list(self.unclaimed.values()):  # other threads may go on making calls, and using them
            for call in calls:
                if self.unclaimed.pop(id(call), None) is None:
                    continue
                if isinstance(call._sent, Future):
                    resolve(call)
                else:
                    unsent.append(f"{call._title}()")
        self.report_failures()
        if unsent:
            sys.stderr.write(
                f"never awaited, so never sent: {', '.join(unsent[:_MAX_WARNINGS])} ({len(unsent)} in all)\n"
            )

    def report_failures(self) -> None:
        """Print what failed in each `map` whose errors the program never read."""
        for warning in [found for results in self.maps if (found := results.warning())][:_MAX_WARNINGS]:
            sys.stderr.write(f"{warning}\n")


class Origin:
    """The server that files came from, which reads their links."""

    def __init__(self, calls: Calls, server: str) -> None:
        self._calls = calls
        self._server = server

    def read(self, uri: str) -> Any:
        return self._calls.link.wait(self._calls.begin_read(self._server, uri))

    def fetch(self, uri: str, frame: FrameType | None) -> Any:
        """As a call does: the resource for plain code, something to await for async code."""
        return self._calls.give(self._calls.begin_read(self._server, uri), "fetch", frame)


class Resources:
    """The resources of one server: `from servers.docs import resources`, then `resources.read(…)`. Reading is a call.

    A tool of the server that is called `resources` keeps that name; this object is then `resources_`.
    """

    def __init__(self, calls: Calls, server: str, name: str) -> None:
        self._calls = calls
        self._server = server
        self._name = name

    def read(self, *given: Any, **arguments: Any) -> Any:
        """The resource of this URI or name: a file, or several in a list; in async code awaitable.

        `arguments` are those of a template; they may also be given as a dict, as those of tools. The URI may be given
        as `uri`, and may also be one that a result of this program links to.
        """
        named_by = list(given)
        if not named_by and "uri" in arguments:
            named_by = [arguments.pop("uri")]
        if len(named_by) == 2 and isinstance(named_by[1], dict):
            arguments = {**named_by.pop(), **arguments}
        if len(named_by) != 1:
            raise TypeError(
                f"{self._name}.read() takes the URI or name of a resource, and a template's arguments by name"
            )
        named = resolve(named_by[0])
        if isinstance(named, File):
            named = named.uri
        if isinstance(named, dict):  # as `list` gives them
            named = named.get("uri")
        if not isinstance(named, str):
            raise TypeError(f"{self._name}.read() takes the URI or name of a resource, not {type(named).__name__}")
        plain = plain_arguments(f"{self._name}.read", arguments)
        future = self._calls.begin_read(self._server, named, plain)
        return self._calls.give(future, f"{self._name}.read", sys._getframe(1))

    def templates(self) -> list[dict[str, Any]]:
        """The templates of the server as dicts with `name`, `uri` and `arguments`."""
        return [each for each in self._listed() if "arguments" in each]

    def __getattr__(self, name: str) -> Any:
        ways = "read(name_or_uri, **template_arguments), list() and templates()"
        raise AttributeError(f"{self.__dict__.get('_name', 'resources')} has no {name!r}; it has {ways}")

    def _listed(self) -> list[dict[str, Any]]:
        error = functools.partial(ToolError, server=self._server, tool=self._name, kind="unknown_tool")
        return [*self._calls.link.ask("resources", error, server=self._server)]

    def __repr__(self) -> str:
        name = self._name
        return f"<resources of servers.{self._server}: {name}.read(uri), {name}.list(), {name}.templates()>"

    def list(self) -> list[dict[str, Any]]:
        """The resources of the server as dicts with `name` and `uri`, without its templates."""
        return [each for each in self._listed() if "arguments" not in each]
