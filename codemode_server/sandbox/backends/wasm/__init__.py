"""The wasm backend: CPython 3.14 as a WebAssembly component, each program in a fresh instance in a worker process.

`build` makes the component from the guest's sources, `component` finds it and compiles it for this machine once,
`worker` runs in the process that owns an instance, `process` is the host's end of that process, and `backend`
implements the contract with a pool of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.registry import Announce, BackendSpec, Diagnosis, Outlook, SandboxSettings, Step

if TYPE_CHECKING:
    from codemode_server.sandbox.contract import SandboxBackend
    from codemode_server.settings import LimitSettings


async def _diagnose(settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
    import anyio.to_thread

    from codemode_server.sandbox.backends.wasm.component import diagnose

    return await anyio.to_thread.run_sync(diagnose)


async def _outlook(_settings: SandboxSettings) -> Outlook:
    return Outlook("wasm")


async def _prepare(settings: SandboxSettings, _archive: Path | None, announce: Announce) -> Step | None:
    import anyio.to_thread

    from codemode_server.sandbox.backends.wasm.component import prepare
    from codemode_server.sandbox.registry import candidates

    return await anyio.to_thread.run_sync(prepare, announce) if BACKEND in candidates(settings) else None


async def _create(
    settings: SandboxSettings, _limits: LimitSettings, _workspace: Path | None, announce: Announce
) -> SandboxBackend:
    from codemode_server.sandbox.backends.wasm.backend import WasmBackend
    from codemode_server.sandbox.contract import started

    return await started(WasmBackend(warm=settings.warm, announce=announce))


BACKEND = BackendSpec(
    name="wasm",
    isolation=IsolationLevel.WASM,
    sandbox="wasm",
    documentation="CPython inside WebAssembly, which works everywhere.",
    settings_model=SandboxSettings,
    diagnose=_diagnose,
    outlook=_outlook,
    prepare=_prepare,
    create=_create,
)
