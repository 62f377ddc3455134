"""Lets the requests of one session in a few at a time, so that a burst of one host delays no other for long.

The first milliseconds of a request are work of the event loop: its JSON, its checks, the beginning of its record. Tasks
on a loop take turns step by step, so with fifty requests beginning at once each step of a fifty-first waits for fifty.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

_AT_ONCE = 3
"""Requests of one session that begin at once."""
_BEGIN_SECONDS = 0.05
"""After so long a request counts as begun: it waits for a program, a server or a stream."""


class Admission:
    """The requests that begin, by session. Used from one event loop."""

    def __init__(self) -> None:
        self._beginning: dict[bytes, _Beginning] = {}

    @asynccontextmanager
    async def admitted(self, session: bytes) -> AsyncIterator[None]:
        """Wait until few requests of the session are beginning. `session` is empty for hosts that have none."""
        beginning = self._beginning.setdefault(session, _Beginning())
        beginning.users += 1
        try:
            await beginning.places.acquire()
            begun = _Begun(beginning.places)
            timer = asyncio.get_running_loop().call_later(_BEGIN_SECONDS, begun.release)
            try:
                yield
            finally:
                timer.cancel()
                begun.release()
        finally:
            beginning.users -= 1
            if not beginning.users:
                del self._beginning[session]


class _Beginning:
    def __init__(self) -> None:
        self.places = anyio.Semaphore(_AT_ONCE)
        self.users = 0


class _Begun:
    def __init__(self, places: anyio.Semaphore) -> None:
        self._places: anyio.Semaphore | None = places

    def release(self) -> None:
        places, self._places = self._places, None
        if places is not None:
            places.release()
