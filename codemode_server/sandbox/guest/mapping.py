"""`tool.map(items)`: one call for each item, some at a time, the results in the order of the items.

An item that fails leaves None in its place and its error in `errors`; only what no item can change (the tool is not
permitted, or is gone) is raised. If the first item does not fit the tool's parameters, it is likely that none does:
that is raised as well, before any call.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any

from .calls import Calls, PendingCall, ToolError

_FOR_ALL = frozenset({"refused", "unknown_tool"})
"""Kinds of errors that every other item would meet as well."""


class Mapped(list[Any]):
    """The results in the order of the items; None for those in `errors`."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._errors: dict[int, Exception] = {}
        self._is_looked_at = False

    @property
    def errors(self) -> dict[int, Exception]:
        self._is_looked_at = True
        return self._errors

    @property
    def ok(self) -> list[Any]:
        return [value for index, value in enumerate(self) if index not in self.errors]

    def warning(self) -> str | None:
        """Names the errors that the program never read; None if there are none."""
        if self._is_looked_at or not self._errors:
            return None
        index, error = min(self._errors.items(), key=lambda it: it[0])
        return (
            f"{self._title}.map(): {len(self._errors)} of {len(self)} calls failed and left None in the result; "
            f"item {index}: {type(error).__name__}: {str(error)[:300]} "
            "(result.errors has each error by its item's index, result.ok the results of the others)"
        )


def prepared(
    title: str, items: Iterable[Any], prepare: Callable[[Any], Callable[[], Future[Any]]]
) -> tuple[dict[int, Callable[[], Future[Any]]], Mapped]:
    """Functions that send the calls of the items that fit, by index, and the results with the errors of the others.
    Raises `TypeError` if the first item does not fit."""
    sends: dict[int, Callable[[], Future[Any]]] = {}
    results = Mapped(title)
    for index, item in enumerate(items):
        results.append(None)
        try:
            sends[index] = prepare(item)
        except (TypeError, ToolError) as error:
            if index == 0 and isinstance(error, TypeError):
                raise TypeError(f"{title}.map(): the first item does not fit: {error}") from None
            results._errors[index] = error
    return sends, results


class PendingMap(PendingCall):
    """A running map: `concurrency` calls are on their way, and each answer has the next one sent."""

    __slots__ = ("_lock", "_results", "_unanswered", "_unsent")

    def __init__(
        self, calls: Calls, sends: Mapping[int, Callable[[], Future[Any]]], results: Mapped, concurrency: int
    ) -> None:
        super().__init__(calls, Future(), results._title)
        self._results = results
        self._unsent = iter(sends.items())
        self._unanswered = len(sends)
        self._lock = threading.Lock()
        """Answers come in another thread than the first calls are sent in."""
        for _ in range(concurrency):
            self._send_next()
        if not sends:
            self._finish()

    def _send_next(self) -> None:
        with self._lock:
            index, send = next(self._unsent, (-1, None))
        if send is not None and not self._future.done():
            send().add_done_callback(functools.partial(self._take, index))

    def _take(self, index: int, answer: Future[Any]) -> None:
        try:
            self._results[index] = answer.result()
        except Exception as error:  # noqa: BLE001 - memory, or a bug: whoever waits must not wait for ever
            self._results._errors[index] = error
            if not isinstance(error, ToolError) or error.kind in _FOR_ALL:
                with contextlib.suppress(InvalidStateError):
                    self._future.set_exception(error)
        with self._lock:
            self._unanswered -= 1
            is_over = not self._unanswered
        if is_over:
            self._finish()
        self._send_next()

    def _finish(self) -> None:
        if not self._future.done():  # else it has failed, or is cancelled
            self._calls.maps.append(self._results)  # before the program goes on, and may end
            with contextlib.suppress(InvalidStateError):
                self._future.set_result(self._results)
