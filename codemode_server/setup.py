"""The `setup` command: fetches and compiles ahead what the first program would otherwise have to wait for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codemode_server.sandbox.registry import SandboxSettings, Step, backends


async def prepare(settings: SandboxSettings, archive: Path | None, announce: Callable[[str], None]) -> list[Step]:
    """Make ready what each backend needs, if programs may run in it here.

    `archive`: take the microVMs' image from this file, without a network.
    """
    steps = [await spec.prepare(settings, archive, announce) for spec in backends()]
    return [step for step in steps if step is not None]
