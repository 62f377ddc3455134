"""What `setup` does for microVMs: their image comes onto this machine."""

from __future__ import annotations

import time
from pathlib import Path

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import BACKEND, MicrovmSettings, image, runtime
from codemode_server.sandbox.registry import Announce, Step, candidates, demand


async def prepare(settings: MicrovmSettings, archive: Path | None, announce: Announce) -> Step:
    """Pull the image, or load it from `archive`; only if microVMs may run here."""
    if BACKEND not in candidates(settings):
        return Step(
            "image", f"not needed, since `sandbox.backend` is `{settings.backend}`", is_successful=archive is None
        )
    if not demand(settings) and archive is None:
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
        return Step("image", str(error), is_successful=False)
    return Step("image", f"{settings.image} pulled, {_size(stored)} in {time.monotonic() - began:.0f} s")


def _loaded(stored: image.Stored, archive: Path) -> str:
    pinned = stored.reference.partition("@")[2]
    note = ""
    if pinned and pinned != stored.digest:
        note = f"; its own digest is {stored.digest}, and it stands for the pinned one because you gave it"
    return f"{stored.reference} loaded from {archive}, {_size(stored)}{note}"


def _size(stored: image.Stored) -> str:
    return f"{stored.size_bytes / 1e6:.1f} MB"
