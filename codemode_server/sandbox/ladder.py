"""The best sandbox that the settings allow and this machine has; never less, never none."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from codemode_server.errors import SandboxUnavailable
from codemode_server.sandbox.backend import SandboxBackend
from codemode_server.settings import SandboxSettings


class Sandbox:
    """A backend that is made ready in the background; a program that comes earlier waits for it.

    After a failure the next program tries again, so a mended machine needs no restart.
    """

    def __init__(self, make: Callable[[], SandboxBackend]) -> None:
        self._make = make
        self._backend: SandboxBackend | None = None
        self._starting = anyio.Lock()

    async def ready(self) -> SandboxBackend:
        """The backend, started.

        Raises:
            SandboxUnavailable: with the reason and what to do.
        """
        async with self._starting:
            if self._backend is None:
                backend = self._make()
                await backend.start()
                self._backend = backend
            return self._backend

    async def aclose(self) -> None:
        if self._backend is not None:
            await self._backend.aclose()


def make_backend(settings: SandboxSettings, announce: Callable[[str], None]) -> SandboxBackend:
    """The backend that `sandbox.backend` means on this machine; `announce` gets a line for the person.

    Raises:
        SandboxUnavailable: there is none.
    """
    if settings.backend in ("auto", "wasm"):
        from codemode_server.sandbox.wasm.backend import WasmBackend

        return WasmBackend(warm=settings.warm, announce=announce)
    raise SandboxUnavailable(f"there is no sandbox backend {settings.backend!r}")
