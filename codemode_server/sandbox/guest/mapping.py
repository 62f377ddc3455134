"""`tool.map(items)`: one call for each item, some at a time, the results in the order of the items.

Items are taken as they are needed, by whoever waits, so they may come from a generator that calls tools itself. One
that fails leaves None in its place and its error in `errors`; only what no item can change (the tool is not permitted,
or is gone) is raised, as is what the items themselves raise. If the first item does not fit the tool's parameters, it
is likely that none does: that is raised as well, before any call. At the limit on calls, `LimitExceeded` is raised
once the calls in flight are answered; its `items` are the results, and those that were not called have it as error.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any

from .calls import Calls, LimitExceeded, PendingCall, ToolError

_FOR_ALL = frozenset({"refused", "unknown_tool"})
"""Kinds of errors that every other item would meet as well."""


class Failures:
    """The errors of one map, and whether the program read them."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.calls = 0
        self.errors: dict[int, Exception] = {}
        self.is_looked_at = False

    def warning(self) -> str | None:
        """Names the errors that the program never read; None if there are none."""
        if self.is_looked_at or not self.errors:
            return None
        index, error = min(self.errors.items(), key=lambda it: it[0])
        return (
            f"{self.title}.map(): {len(self.errors)} of {self.calls} calls failed and left None in the result; "
            f"item {index}: {type(error).__name__}: {str(error)[:300]} "
            "(result.errors has each error by its item's index, result.ok the results of the others)"
        )


class Mapped(list[Any]):
    """The results in the order of the items; None for those in `errors`."""

    def __init__(self, failures: Failures) -> None:
        super().__init__()
        self._failures = failures

    @property
    def errors(self) -> dict[int, Exception]:
        """Exceptions, by the index of the item."""
        self._failures.is_looked_at = True
        return self._failures.errors

    @property
    def ok(self) -> list[Any]:
        """The results of those that succeeded."""
        return [value for index, value in enumerate(self) if index not in self.errors]


class PendingMap(PendingCall):
    """A running map; begun at once, and continued by the code that waits for it."""

    __slots__ = (
        "_begin",
        "_concurrency",
        "_done",
        "_failures",
        "_in_flight",
        "_is_driven",
        "_items",
        "_limit",
        "_results",
    )

    def __init__(
        self,
        calls: Calls,
        title: str,
        begin: Callable[[Any], Future[Any]],
        items: Iterable[Any],
        concurrency: int,
    ) -> None:
        super().__init__(calls, Future(), title)
        self._begin = begin
        self._items: Iterator[Any] | None = iter(items)
        self._concurrency = concurrency
        self._failures = Failures(title)
        self._results = Mapped(self._failures)
        self._in_flight: dict[int, Future[Any]] = {}
        self._done: collections.deque[int] = collections.deque()
        self._is_driven = False
        self._limit: LimitExceeded | None = None

    async def _wait(self) -> Any:
        if self._is_driven:
            return await asyncio.wrap_future(self._future)
        self._is_driven = True
        try:
            while (signal := self.step()) is not None:
                await asyncio.wrap_future(signal)
        finally:
            self._is_driven = False  # whoever is cancelled leaves the rest to others
        return self._future.result()

    def _value(self) -> Any:
        self._calls.unclaimed.pop(id(self), None)
        if self._is_driven:
            return self._calls.link.wait(self._future)
        self._is_driven = True
        try:
            while (signal := self.step()) is not None:
                self._calls.link.wait(signal)
        finally:
            self._is_driven = False
        return self._future.result()

    def step(self) -> Future[Any] | None:
        """Begin as many calls as may be in flight; gives a future that settles when one is done, or None at the end."""
        try:
            self._take_in()
            with self._calls.mapping():
                while self._items is not None and len(self._in_flight) < self._concurrency:
                    self._begin_next(self._items)
            if self._in_flight:
                return self._signal()
            if self._limit is not None:
                self._limit.items = self._results
                self._calls.note_limit()
                raise self._limit
        except BaseException as error:
            self._items = None
            if not self._future.done():
                self._future.set_exception(error)
            raise
        if not self._future.done():
            self._failures.calls = len(self._results)
            self._calls.failures.append(self._failures)
            self._future.set_result(self._results)
        return None

    def _begin_next(self, items: Iterator[Any]) -> None:
        try:
            item = next(items)
        except StopIteration:
            self._items = None
            return
        except LimitExceeded as error:  # of a call that gives the items
            self._stop(error)
            return
        index = len(self._results)
        self._results.append(None)
        try:
            self._in_flight[index] = self._begin(item)
        except (TypeError, ToolError) as error:
            if index == 0 and isinstance(error, TypeError):
                raise TypeError(f"{self._title}.map(): the first item does not fit: {error}") from None
            self._failures.errors[index] = error
        else:
            self._in_flight[index].add_done_callback(lambda _: self._done.append(index))

    def _take_in(self) -> None:
        while self._done:
            index = self._done.popleft()
            try:
                self._results[index] = self._in_flight.pop(index).result()
            except ToolError as error:
                if error.kind in _FOR_ALL:
                    raise
                self._failures.errors[index] = error
            except LimitExceeded as error:
                self._failures.errors[index] = error
                self._stop(error)

    def _stop(self, limit: LimitExceeded) -> None:
        """Begin no further call. Items whose number is known have the error, too."""
        first, left = len(self._results), operator.length_hint(self._items or ())
        self._results += [None] * left
        self._failures.errors |= dict.fromkeys(range(first, first + left), limit)
        self._items, self._limit = None, limit

    def _signal(self) -> Future[Any]:
        signal: Future[Any] = Future()

        def settle(_: Future[Any]) -> None:
            with contextlib.suppress(InvalidStateError):  # another call was faster
                signal.set_result(None)

        for future in list(self._in_flight.values()):
            future.add_done_callback(settle)
        return signal
