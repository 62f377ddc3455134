"""Runs programs in microVMs of microsandbox: one VM for each session, isolated by hardware virtualization.

`runtime` finds microsandbox and what this machine lacks for it, `image` manages the VMs' image, `probe_cache` remembers
whether a microVM boots here. The package `microsandbox` is imported inside functions only: it does not exist for every
platform, and loads 40 MB that a start without microVMs does not need.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.registry import Announce, BackendSpec, Diagnosis, Outlook, SandboxSettings, Step
from codemode_server.setting_types import Number, Seconds

if TYPE_CHECKING:
    from codemode_server.sandbox.contract import SandboxBackend
    from codemode_server.settings import LimitSettings

DEFAULT_IMAGE = (
    "docker.io/library/python:3.14-slim@sha256:b877e50bd90de10af8d82c57a022fc2e0dc731c5320d762a27986facfc3355c1"
)
"""The official image, pinned by digest, since tags can change."""
_IMAGE = (
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


class MicrovmSettings(SandboxSettings):
    """The settings of the section `sandbox` for microVMs."""

    image: str = Field(default=DEFAULT_IMAGE, max_length=500, json_schema_extra={"pattern": f"^{_IMAGE}$"})
    """OCI image of the microVMs, with Python 3.11 or newer as `python3`; a digest fixes its content. Pulled at first
    use, or in advance with `codemode-server setup`."""
    memory_mb: Number = Field(default=512, ge=256, le=16_384)
    """Memory of a microVM, MiB; never less than `limits.memory_mb` and 192 more."""
    cpus: Number = Field(default=1, ge=1, le=16)
    """Processors of a microVM."""
    disk_mb: Number = Field(default=256, ge=16, le=8_192)
    """Size of /tmp in a microVM, MiB, which is in its memory. Everything else but /workspace is read-only."""
    idle_seconds: Seconds = 900.0
    """A session's microVM that has run nothing for this time is ended; the next program gets another."""
    age_seconds: Seconds = 7_200.0
    """A microVM older than this runs no further program and is replaced."""

    @field_validator("image")
    @classmethod
    def _image_is_a_reference(cls, image: str) -> str:
        if not re.fullmatch(_IMAGE, image):
            raise ValueError("is no reference of an image; write it like docker.io/library/python:3.14-slim")
        return image


async def _diagnose(settings: MicrovmSettings, *, boot: bool, announce: Announce) -> Diagnosis:
    from codemode_server.sandbox.backends.microvm.diagnosis import diagnose

    return await diagnose(settings, boot=boot, announce=announce)


async def _outlook(settings: MicrovmSettings) -> Outlook:
    from codemode_server.sandbox.backends.microvm.diagnosis import outlook

    return await outlook(settings)


async def _prepare(settings: MicrovmSettings, archive: Path | None, announce: Announce) -> Step:
    from codemode_server.sandbox.backends.microvm.diagnosis import prepare

    return await prepare(settings, archive, announce)


async def _create(
    settings: MicrovmSettings, limits: LimitSettings, workspace: Path | None, announce: Announce
) -> SandboxBackend:
    from codemode_server.sandbox.backends.microvm.backend import create

    return await create(settings, limits, workspace, announce)


BACKEND = BackendSpec(
    name="microsandbox",
    isolation=IsolationLevel.MICROVM,
    sandbox="microVM",
    documentation="a microVM of its own for each session, where this machine can boot them.",
    settings_model=MicrovmSettings,
    diagnose=_diagnose,
    outlook=_outlook,
    prepare=_prepare,
    create=_create,
)
