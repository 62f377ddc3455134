"""Runs the background tasks of an object for as long as it is open."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskGroup


class OwnsTasks:
    """Base of what is used as `async with it.open()` and starts tasks in `_tasks` meanwhile."""

    _tasks: TaskGroup | None = None
    """None before it is opened and from the beginning of its end."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Self]:
        """On leaving, its tasks are cancelled, and what it holds is released once they have ended."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                try:
                    yield self
                finally:
                    self._tasks = None
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._release()

    async def _release(self) -> None:
        """Hook: cleans up once no task runs any more; not cancelled."""
