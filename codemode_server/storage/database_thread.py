"""Runs the database steps of journal, audit and caches in one thread, with group commit.

The event loop never waits for the disk: a step is queued, the thread does all queued steps in one transaction, and
their callers continue after the commit. A step is queued before its caller first awaits, so that a cancelled caller
neither loses nor repeats a write, and steps are done in the order in which they were requested.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import Connection, Executable

from codemode_server.domain.errors import CodemodeError, JournalUnavailable
from codemode_server.storage.database import AnyRow, Database, DatabasePlace, DatabaseUnreachable

if TYPE_CHECKING:
    import asyncio  # not at run time before the first answer to the host

logger = logging.getLogger(__name__)

_MAX_QUEUED = 256
_COLLECT_S = 0.05
"""How long a posted step is held back, so that it shares a transaction with the next step that somebody awaits."""

_ENDING = "codemode-server is ending, so nothing is recorded any more"

T = TypeVar("T")
Step = Callable[[Connection], T]


@dataclass(slots=True)
class _Request(Generic[T]):
    step: Step[T]
    is_durable: bool = False
    future: asyncio.Future[T] | None = None
    on_error: Callable[[Exception], None] | None = None
    """Called in the thread, before any later step, if nobody awaits the step."""
    result: T | None = None
    error: Exception | None = None


class DatabaseThread:
    """The thread starts with the first step and ends with `close`."""

    def __init__(self, place: DatabasePlace) -> None:
        self._place = place
        self._requests: queue.SimpleQueue[list[_Request[Any]] | None] = queue.SimpleQueue()
        self._posted: list[_Request[Any]] = []
        self._guard = threading.Lock()
        """Guards `_posted`, `_thread` and `_is_closed`: a step that is queued after the end would never be answered."""
        self._thread: threading.Thread | None = None
        self._database: Database | None = None
        self._connection: Connection | None = None
        self._is_closed = False

    async def run(self, step: Step[T], *, is_durable: bool = False) -> T:
        """Do a step in a transaction, perhaps again after a failure, and return after the commit: it survives the death
        of the process, and with `is_durable` a power cut. Raises `JournalUnavailable`: the database can't be used."""
        return await self.submit(step, is_durable=is_durable)

    def submit(self, step: Step[T], *, is_durable: bool = False) -> asyncio.Future[T]:
        """As `run`, for a caller that does something else until the commit."""
        from asyncio import get_running_loop

        future: asyncio.Future[T] = get_running_loop().create_future()
        if not self._put(_Request(step, is_durable, future)):
            raise JournalUnavailable(_ENDING)
        return future

    async def flush(self) -> None:
        """Return once the steps that were posted are done."""
        if self._posted:
            await self.run(lambda connection: None)

    async def rows(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Sequence[AnyRow]:
        return await self.run(lambda connection: connection.execute(statement, values).all())

    def post(
        self,
        step: Step[object],
        loss: str = "",
        *,
        on_error: Callable[[Exception], None] | None = None,
        is_held: bool = True,
    ) -> None:
        """Queue a step, which is done before all later ones. An error is passed to `on_error`, in the thread and before
        any later step, or logged after `loss`. `is_held`: hold it back for a moment, to share the next transaction."""
        from asyncio import get_running_loop

        with self._guard:
            if self._is_closed:
                logger.warning(_ENDING)
                return
            self._posted.append(_Request(step, on_error=on_error or partial(logger.warning, "%s: %s", loss)))
            is_first = len(self._posted) == 1
        if not is_held:
            self._put()
        elif is_first:
            try:
                get_running_loop().call_later(_COLLECT_S, self._put)
            except RuntimeError:  # no event loop runs
                self._put()

    def _put(self, *requests: _Request[Any]) -> bool:
        """Queue the posted steps and these; says whether they will be done, and not refused after `close`."""
        with self._guard:
            if self._is_closed:
                return False
            self._queue_posted(*requests)
        return True

    def _queue_posted(self, *requests: _Request[Any]) -> None:
        """The caller holds the guard."""
        together, self._posted = [*self._posted, *requests], []
        if together:
            self._requests.put(together)
        if self._thread is None and together:
            self._thread = threading.Thread(target=self._serve, name="codemode-journal", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Do all queued steps and end the thread. Blocks."""
        with self._guard:
            self._queue_posted()
            self._is_closed = True
            self._requests.put(None)
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        is_ending = False
        while not is_ending:
            waiting = [self._requests.get()]
            with suppress(queue.Empty):
                while len(waiting) < _MAX_QUEUED:
                    waiting.append(self._requests.get_nowait())
            is_ending = None in waiting
            requests = [request for queued in waiting for request in queued or ()]
            if requests:
                self._do(requests)
                _answer(requests)
        if self._connection is not None:
            self._connection.close()
        if self._database is not None:
            self._database.close()

    def _do(self, requests: Sequence[_Request[Any]]) -> None:
        """Do the steps together, or, if one fails, each on its own. While the database is locked or does not answer
        they fail together: each would wait for it as long as all did."""
        try:
            if self._database is None:
                self._database = Database(self._place)
                self._connection = self._database.connect()
            is_durable = any(map(attrgetter("is_durable"), requests))
            self._database.transact(partial(_do_all, requests), self._connection, is_durable=is_durable)
        except Exception as error:  # noqa: BLE001 - raised in the caller
            if len(requests) > 1 and self._database is not None and not isinstance(error, DatabaseUnreachable):
                for request in requests:
                    self._do([request])
            else:
                for request in requests:
                    request.error = _copy(error)
                    if request.on_error is not None:
                        request.on_error(request.error)


def _do_all(requests: Sequence[_Request[Any]], connection: Connection) -> None:
    for request in requests:
        request.result = request.step(connection)


def _answer(requests: Sequence[_Request[Any]]) -> None:
    """Resume the callers, with one callback for each event loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[_Request[Any]]] = {}
    for request in requests:
        if request.future is not None:
            waiting.setdefault(request.future.get_loop(), []).append(request)
    for loop, answered in waiting.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_settle, answered)


def _settle(requests: Sequence[_Request[Any]]) -> None:
    for request in requests:
        if request.future is None or request.future.done():  # its caller was cancelled
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)


def _copy(error: Exception) -> Exception:
    """A copy for one caller, since a traceback belongs to one task."""
    if not isinstance(error, CodemodeError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
