"""The best sandbox that the settings allow and this machine has; never less, never none."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.contract import SandboxBackend
from codemode_server.settings import LimitSettings, SandboxSettings

logger = logging.getLogger(__name__)
_Backend = TypeVar("_Backend", bound=SandboxBackend)


@dataclass(frozen=True, slots=True)
class Choice:
    """A started backend, and why it is no better one."""

    backend: SandboxBackend
    shortfall: str = ""
    """Why programs run in no microVM, where `auto` would have taken one; else empty."""


class Sandbox:
    """A backend that is made ready in the background; a program that comes earlier waits for it.

    After a failure the next program tries again, so a mended machine needs no restart.
    """

    def __init__(self, choose: Callable[[], Awaitable[Choice]]) -> None:
        self._choose = choose
        self._choice: Choice | None = None
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
                if self._choice is not None:
                    await self._choice.backend.aclose()

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
            if self._choice is None:
                self._choice = await self._choose()
                if self._tasks is not None:
                    self._tasks.start_soon(self._choice.backend.tend)
            return self._choice.backend

    @property
    def level(self) -> IsolationLevel | None:
        """None until a backend is ready."""
        return self._choice.backend.level if self._choice is not None else None

    @property
    def shortfall(self) -> str:
        """Why programs run in no microVM, as far as that is known by now; empty if they do."""
        return self._choice.shortfall if self._choice is not None else ""

    async def _prepare(self) -> None:
        try:
            await self.ready()
        except SandboxUnavailable as error:
            logger.warning("%s", error)


async def choose(
    settings: SandboxSettings, limits: LimitSettings, workspace: Path | None, announce: Callable[[str], None]
) -> Choice:
    """Start the backend that the settings mean on this machine; `announce` gets lines for the person.

    Raises:
        SandboxUnavailable: there is none.
    """
    shortfall = ""
    if settings.backend != "wasm":
        try:
            return Choice(await _microvm(settings, limits, workspace, announce))
        except SandboxUnavailable as error:
            if settings.backend == "microsandbox" or settings.require == "microvm":
                raise _unmet(settings, error) from error
            shortfall = error.reason
            logger.warning("programs run in wasm, in no microVM: %s; `codemode-server doctor` tells more", shortfall)
    from codemode_server.sandbox.backends.wasm.backend import WasmBackend

    return Choice(await _started(WasmBackend(warm=settings.warm, announce=announce)), shortfall)


async def _microvm(
    settings: SandboxSettings, limits: LimitSettings, workspace: Path | None, announce: Callable[[str], None]
) -> SandboxBackend:
    from codemode_server.sandbox.backends.microvm import probe_cache
    from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend

    known = await probe_cache.examine(settings)
    if known is not None and not known.works:
        raise known.error
    if known is None:
        announce("trying a microVM on this machine, once")
    try:
        backend = await _started(MicrovmBackend(settings, limits, workspace, announce=announce))
    except SandboxUnavailable as error:
        probe_cache.remember(probe_cache.key(settings), probe_cache.Verdict.of(error))
        raise
    if known is None:
        probe_cache.remember(
            probe_cache.key(settings), probe_cache.Verdict(works=True, boot_seconds=backend.boot_seconds)
        )
        announce(f"programs run in microVMs; the first took {backend.boot_seconds:.1f} s to boot")
    return backend


async def _started(backend: _Backend) -> _Backend:
    try:
        await backend.start()
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await backend.aclose()
        if isinstance(error, OSError):
            raise SandboxUnavailable(f"the sandbox can't be started: {error}") from error
        raise
    return backend


def _unmet(settings: SandboxSettings, error: SandboxUnavailable) -> SandboxUnavailable:
    """What the settings ask for can't be had, and nothing less takes its place."""
    asks = "sandbox.backend: microsandbox" if settings.backend == "microsandbox" else "sandbox.require: microvm"
    return SandboxUnavailable(f"`{asks}` can't be met: {error.reason}", error.remedy, passing=error.passing)
