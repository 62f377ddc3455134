"""Checks what microVMs need on this machine, for `doctor` and `status`, and gets their image for `setup`."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.backends.microvm import image, probe_cache, runtime
from codemode_server.sandbox.registry import (
    Announce,
    Check,
    Diagnosis,
    SandboxSettings,
    candidates,
    demand,
)

_PLACE = "microVMs of microsandbox, one to a session"
_ELSEWHERE = "a virtual machine may have virtualization in name only: try on its host, or set sandbox.backend to wasm"
"""Remedy for a boot that fails although every check succeeds."""


async def diagnose(settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
    """Checks everything; with `boot`, also boots a microVM unless a check failed."""
    checks = await _machine()
    is_chosen = _is_candidate(settings)
    is_possible = not any(check.is_obstacle for check in checks)
    checks.append(await _image(settings, is_needed=is_chosen and (is_possible or bool(demand(settings)))))
    obstacles = [check for check in checks if check.is_obstacle]
    if not is_chosen:
        booted = Check("boot", "skipped", f"`sandbox.backend` is `{settings.backend}`")
    elif obstacles:
        booted = Check("boot", "skipped", f"not tried, for want of {obstacles[0].name}")
    elif boot:
        announce("booting a microVM")
        booted = await _booted(settings)
    else:
        booted = await _boot_of_last_time(settings)
    checks.append(booted)
    if obstacle := next((check for check in checks if check.is_obstacle), None):
        if (obstacle.name, obstacle.state) == ("image", "missing"):
            return Diagnosis((*checks,), f"{_PLACE}, once the image is pulled and if one boots here", is_ready=False)
        return Diagnosis((*checks,))
    return Diagnosis((*checks,), _PLACE if booted.state == "ok" else f"{_PLACE}, if one boots here")


async def _machine() -> list[Check]:
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    checks = [Check("platform", "ok", f"{system} {platform.release()} on {platform.machine()}")]
    if (version := runtime.version()) is None:
        problem = runtime.not_installed(sys.platform, platform.machine())
        return [*checks, Check("microsandbox", "missing", problem.reason, problem.remedy)]
    home = await anyio.to_thread.run_sync(_home)
    try:
        msb = await anyio.to_thread.run_sync(runtime.find)
    except SandboxUnavailable as error:
        if home.is_obstacle:  # the cause of the error
            return [*checks, Check("microsandbox", "ok", version), home]
        return [*checks, Check("microsandbox", "failed", error.reason, error.remedy), home]
    return [*checks, Check("microsandbox", "ok", f"{version}, {msb}"), await _virtualization(), home]


async def _virtualization() -> Check:
    problem = await runtime.virtualization()
    return _checked("virtualization", problem, "the processor has it, and this user may use it")


def _home() -> Check:
    home = runtime.home()
    return _checked("MSB_HOME", runtime.home_problem(), f"{home}, {runtime.free_mb(home) / 1024:.1f} GB free")


def _checked(name: str, problem: SandboxUnavailable | None, message: str) -> Check:
    return Check(name, "failed", problem.reason, problem.remedy) if problem is not None else Check(name, "ok", message)


async def _image(settings: SandboxSettings, *, is_needed: bool) -> Check:
    if runtime.version() is None:
        return Check("image", "skipped", "there is no microsandbox to keep it")
    try:
        stored = await image.find(settings.image)
    except SandboxUnavailable as error:
        return Check("image", "failed", error.reason, error.remedy)
    if stored is None and not is_needed:
        return Check("image", "skipped", "not needed, since programs run in no microVM here")
    if stored is None:
        return Check("image", "missing", f"{settings.image} is not on this machine yet", "codemode-server setup")
    return Check("image", "ok", f"{settings.image}, {stored.size_bytes / 1e6:.1f} MB")


async def _booted(settings: SandboxSettings) -> Check:
    from codemode_server.sandbox.backends.microvm import backend

    return _boot(await probe_cache.try_boot(settings, lambda: backend.trial_boot(settings)))


async def _boot_of_last_time(settings: SandboxSettings) -> Check:
    known = await anyio.to_thread.run_sync(probe_cache.recall, probe_cache.key(settings))
    if known is None:
        return Check("boot", "skipped", "not tried")
    check = _boot(known)
    return replace(check, message=f"{check.message}, when it was last tried")


def _boot(result: probe_cache.BootResult) -> Check:
    if isinstance(result, float):
        return Check("boot", "ok", f"booted in {result:.1f} s")
    return Check("boot", "failed", result.reason, _ELSEWHERE if "doctor" in result.remedy else result.remedy)


async def prepare(settings: SandboxSettings, archive: Path | None, announce: Announce) -> Check:
    """Pull the image, or load it from `archive`; only if microVMs may run here."""
    if not _is_candidate(settings):
        state: Literal["ok", "failed"] = "ok" if archive is None else "failed"
        return Check("image", state, f"not needed, since `sandbox.backend` is `{settings.backend}`")
    if not demand(settings) and archive is None:
        if runtime.version() is None:
            missing = runtime.not_installed(sys.platform, platform.machine())
            return Check("microVMs", "skipped", missing.reason, missing.remedy)
        if (problem := await runtime.virtualization()) is not None:
            return Check("image", "ok", f"not needed, since no microVM can run here: {problem.reason}")
    try:
        if archive is not None:
            announce(f"loading {archive}")
            return Check("image", "ok", _loaded(await image.load_archive(archive, settings.image), archive))
        if (stored := await image.find(settings.image)) is not None:
            return Check("image", "ok", f"{settings.image} was here already, {_size(stored)}")
        began = time.monotonic()
        stored = await image.pull(settings.image, announce)
    except SandboxUnavailable as error:
        return Check("image", "failed", str(error))
    return Check("image", "ok", f"{settings.image} pulled, {_size(stored)} in {time.monotonic() - began:.0f} s")


def _loaded(stored: image.Stored, archive: Path) -> str:
    pinned = stored.reference.partition("@")[2]
    note = ""
    if pinned and pinned != stored.digest:
        note = f"; its own digest is {stored.digest}, and it stands for the pinned one because you gave it"
    return f"{stored.reference} loaded from {archive}, {_size(stored)}{note}"


def _size(stored: image.Stored) -> str:
    return f"{stored.size_bytes / 1e6:.1f} MB"


def _is_candidate(settings: SandboxSettings) -> bool:
    return any(it.isolation is IsolationLevel.MICROVM for it in candidates(settings))
