"""The `setup` command: fetches and compiles ahead what the first program would otherwise have to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import image, runtime
from codemode_server.sandbox.backends.wasm import component
from codemode_server.settings import SandboxSettings
from codemode_server.text import escaped


@dataclass(frozen=True, slots=True)
class Step:
    """What was done for one sandbox."""

    name: str
    told: str
    is_well: bool = True

    @property
    def text(self) -> str:
        return escaped(f"{self.name}: {self.told}")


async def prepare(settings: SandboxSettings, archive: Path | None, announce: Callable[[str], None]) -> list[Step]:
    """Make ready the microVMs' image and the wasm component, each only if programs may run in it here.

    `archive`: take the image from this file, without a network.
    """
    steps = [await _image(settings, archive, announce)]
    if settings.backend != "microsandbox" and settings.require != "microvm":
        steps.append(await anyio.to_thread.run_sync(_wasm, announce))
    return steps


async def _image(settings: SandboxSettings, archive: Path | None, announce: Callable[[str], None]) -> Step:
    if settings.backend == "wasm":
        return Step("image", "not needed, since `sandbox.backend` is `wasm`", is_well=archive is None)
    if settings.backend == "auto" and settings.require == "any" and archive is None:
        if runtime.version() is None:
            return Step("image", "not needed, since there is no microsandbox for this platform")
        if (problem := await runtime.virtualization()) is not None:
            return Step("image", f"not needed, since no microVM can run here: {problem.reason}")
    try:
        if archive is not None:
            announce(f"loading {archive}")
            return Step("image", _loaded(await image.load_archive(archive, settings.image), archive))
        if (stored := await image.find(settings.image)) is not None:
            return Step("image", f"{settings.image} was here already, {_size(stored)}")
        began = time.monotonic()
        stored = await image.pull(settings.image, announce)
    except SandboxUnavailable as error:
        return Step("image", str(error), is_well=False)
    return Step("image", f"{settings.image} pulled, {_size(stored)} in {time.monotonic() - began:.0f} s")


def _loaded(stored: image.Stored, archive: Path) -> str:
    pinned = stored.reference.partition("@")[2]
    note = ""
    if pinned and pinned != stored.digest:
        note = f"; its own digest is {stored.digest}, and it stands for the pinned one because you gave it"
    return f"{stored.reference} loaded from {archive}, {_size(stored)}{note}"


def _size(stored: image.Stored) -> str:
    return f"{stored.size_bytes / 1e6:.1f} MB"


def _wasm(announce: Callable[[str], None]) -> Step:
    try:
        guest, folder = component.checked_component(), component.cache_folder()
        if component.is_compiled(guest, folder):
            return Step("wasm", "was compiled already")
        component.native_code(guest, folder, announce)
    except SandboxUnavailable as error:
        return Step("wasm", str(error), is_well=False)
    return Step("wasm", "compiled for this machine")
