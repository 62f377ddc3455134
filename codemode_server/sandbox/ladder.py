"""The best sandbox that the settings allow and this machine has; never less, never none."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from codemode_server.errors import SandboxUnavailable
from codemode_server.sandbox.backend import SandboxBackend
from codemode_server.settings import SandboxSettings

logger = logging.getLogger(__name__)


class Sandbox:
    """A backend that is made ready in the background; a program that comes earlier waits for it.

    After a failure the next program tries again, so a mended machine needs no restart.
    """

    def __init__(self, make: Callable[[], SandboxBackend]) -> None:
        self._make = make
        self._backend: SandboxBackend | None = None
        self._starting = anyio.Lock()
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sandbox]:
        """Own the backend while this is entered; on leaving, no sandbox of it is left."""
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
                if self._backend is not None:
                    await self._backend.aclose()

    def start_soon(self) -> None:
        """Make the backend ready in the background."""
        if self._tasks is not None:
            self._tasks.start_soon(self._prepare)

    async def ready(self) -> SandboxBackend:
        """The backend, started.

        Raises:
            SandboxUnavailable: with the reason and what to do.
        """
        async with self._starting:
            if self._backend is None:
                backend = self._make()
                try:
                    await backend.start()
                except BaseException as error:
                    with anyio.CancelScope(shield=True):
                        await backend.aclose()
                    if isinstance(error, OSError):
                        raise SandboxUnavailable(f"the sandbox can't be started: {error}") from error
                    raise
                self._backend = backend
            return self._backend

    async def _prepare(self) -> None:
        try:
            await self.ready()
        except SandboxUnavailable as error:
            logger.warning("%s", error)


def make_backend(settings: SandboxSettings, announce: Callable[[str], None]) -> SandboxBackend:
    """The backend that `sandbox.backend` means on this machine; `announce` gets a line for the person.

    Raises:
        SandboxUnavailable: there is none.
    """
    if settings.backend in ("auto", "wasm"):
        from codemode_server.sandbox.wasm.backend import WasmBackend

        return WasmBackend(warm=settings.warm, announce=announce)
    raise SandboxUnavailable(f"there is no sandbox backend {settings.backend!r}")
