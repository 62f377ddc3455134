"""A burst of requests of one session begins a few at a time, and holds up no other session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from codemode_server.front import http_admission
from codemode_server.front.http_admission import Admission


class Requests:
    """Requests that go on until they are told to end."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.admission = Admission()
        self.begun: list[str] = []
        self._tasks = tasks
        self._ends: dict[str, anyio.Event] = {}

    async def come(self, session: bytes, *names: str) -> None:
        for name in names:
            self._ends[name] = anyio.Event()
            self._tasks.start_soon(self._request, session, name)
        await anyio.wait_all_tasks_blocked()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await anyio.wait_all_tasks_blocked()

    async def _request(self, session: bytes, name: str) -> None:
        async with self.admission.admitted(session):
            self.begun.append(name)
            await self._ends[name].wait()


@pytest.fixture
def long_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request counts as begun because of the time it takes."""
    monkeypatch.setattr(http_admission, "_BEGIN_SECONDS", 60.0)


@asynccontextmanager
async def requests() -> AsyncIterator[Requests]:
    async with anyio.create_task_group() as tasks:
        yield Requests(tasks)
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("long_begin")
async def test_a_burst_of_one_session_begins_three_at_a_time() -> None:
    async with requests() as burst:
        await burst.come(b"one", "a", "b", "c", "d", "e")
        assert burst.begun == ["a", "b", "c"]
        await burst.end("b")
        assert burst.begun == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("long_begin")
async def test_another_session_does_not_wait_for_it() -> None:
    async with requests() as burst:
        await burst.come(b"one", "a", "b", "c", "d")
        await burst.come(b"other", "x")
        assert burst.begun == ["a", "b", "c", "x"]


async def test_requests_that_take_long_keep_no_others_from_beginning() -> None:
    async with requests() as burst:
        await burst.come(b"one", "a", "b", "c", "d", "e", "f", "g")
        with anyio.fail_after(20):
            while len(burst.begun) < 7:
                await anyio.sleep(http_admission._BEGIN_SECONDS / 5)


@pytest.mark.usefixtures("long_begin")
async def test_a_request_that_was_cancelled_leaves_its_place() -> None:
    async with requests() as burst:
        async with anyio.create_task_group() as cancelled:
            for name in ("a", "b", "c", "d"):
                cancelled.start_soon(burst._request, b"one", name)
                burst._ends[name] = anyio.Event()
            await anyio.wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
        await burst.come(b"one", "x", "y", "z")
        assert burst.begun[-3:] == ["x", "y", "z"]


async def test_a_session_without_requests_is_forgotten() -> None:
    async with requests() as burst:
        await burst.come(b"one", "a")
        assert burst.admission._beginning
        await burst.end("a")
        assert not burst.admission._beginning
