"""The `doctor` command: what this machine has for each sandbox and for search, where programs will run, and what mends
the rest."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import image, probe_cache, runtime
from codemode_server.sandbox.backends.wasm import component
from codemode_server.search.encoding import diagnostics
from codemode_server.settings import SandboxSettings, SearchSettings
from codemode_server.text import escaped

_ELSEWHERE = "a virtual machine may have virtualization in name only: try on its host, or set sandbox.backend to wasm"
"""For a boot that fails though all that can be looked at is right."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    state: Literal["ok", "missing", "failed", "skipped"]
    told: str
    remedy: str = ""

    @property
    def is_in_the_way(self) -> bool:
        return self.state in ("missing", "failed")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    checks: tuple[Check, ...]
    destination: str
    """Where programs will run."""
    is_met: bool
    """Whether what the settings ask for can be had, as far as was looked."""

    @property
    def text(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{check.name:<{width}}  {check.state:<7}  {check.told}" for check in self.checks]
        lines += ["", f"programs will run in: {self.destination}"]
        if remedies := [f"  {check.name}: {check.remedy}" for check in self.checks if check.remedy]:
            order = ", in this order" if len(remedies) > 1 else ""
            lines += ["", f"to mend{order}:", *remedies]
        return "\n".join(map(escaped, lines))


async def examine(
    settings: SandboxSettings, search: SearchSettings, *, boot: bool, announce: Callable[[str], None]
) -> Report:
    """Look at everything; with `boot`, boot a microVM where nothing speaks against it. Downloads and mends nothing."""
    checks = [*await _microvm(), await _image(settings)]
    obstacles = [check for check in checks if check.is_in_the_way]
    if settings.backend == "wasm":
        checks = [replace(check, remedy="") for check in checks]
        checks.append(Check("boot", "skipped", "`sandbox.backend` is `wasm`"))
    elif obstacles:
        checks.append(Check("boot", "skipped", f"not tried, for want of {obstacles[0].name}"))
    elif boot:
        announce("booting a microVM")
        checks.append(await _booted(settings))
    else:
        checks.append(await _boot_of_last_time(settings))
    checks.append(await anyio.to_thread.run_sync(_wasm))
    destination, is_met = _destination(settings, checks)
    found = await anyio.to_thread.run_sync(diagnostics.examine, search)
    return Report((*checks, _search(found)), destination, is_met and found.is_met)


async def _microvm() -> list[Check]:
    """What microVMs need of the machine, each whatever the others are."""
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    checks = [Check("platform", "ok", f"{system} {platform.release()} on {platform.machine()}")]
    if (version := runtime.version()) is None:
        problem = runtime.not_installed(sys.platform, platform.machine())
        return [*checks, Check("microsandbox", "missing", problem.reason, problem.remedy)]
    home = await anyio.to_thread.run_sync(_home)
    try:
        found = await anyio.to_thread.run_sync(runtime.find)
    except SandboxUnavailable as error:
        if home.is_in_the_way:  # which is what the error is about, then
            return [*checks, Check("microsandbox", "ok", version), home]
        return [*checks, Check("microsandbox", "failed", error.reason, error.remedy), home]
    return [*checks, Check("microsandbox", "ok", f"{version}, {found.msb}"), *await _virtualization(), home]


async def _virtualization() -> list[Check]:
    present = Check("virtualization", "ok", "the processor has it")
    match await runtime.virtualization():
        case None:
            return [present, Check("access", "ok", "this user may use it")]
        case problem if problem.part == "device":
            return [present, Check("access", "failed", problem.reason, problem.remedy)]
        case problem:
            failed = Check("virtualization", "failed", problem.reason, problem.remedy)
            return [failed, Check("access", "skipped", "nothing to have access to")]


def _home() -> Check:
    if (problem := runtime.home_problem()) is not None:
        return Check("MSB_HOME", "failed", problem.reason, problem.remedy)
    home = runtime.home()
    return Check("MSB_HOME", "ok", f"{home}, {runtime.free_mb(home) / 1024:.1f} GB free")


async def _image(settings: SandboxSettings) -> Check:
    if runtime.version() is None:
        return Check("image", "skipped", "there is no microsandbox to keep it")
    try:
        stored = await image.find(settings.image)
    except SandboxUnavailable as error:
        return Check("image", "failed", error.reason, error.remedy)
    if stored is None:
        return Check("image", "missing", f"{settings.image} is not on this machine yet", "codemode-server setup")
    return Check("image", "ok", f"{settings.image}, {stored.size_bytes / 1e6:.1f} MB")


async def _booted(settings: SandboxSettings) -> Check:
    from codemode_server.sandbox.backends.microvm import backend

    return _boot(await probe_cache.try_boot(settings, backend.trial_boot))


async def _boot_of_last_time(settings: SandboxSettings) -> Check:
    known = await anyio.to_thread.run_sync(probe_cache.recall, probe_cache.key(settings))
    if known is None:
        return Check("boot", "skipped", "not tried")
    check = _boot(known)
    return replace(check, told=f"{check.told}, when it was last tried")


def _boot(known: probe_cache.Verdict) -> Check:
    if known.works:
        return Check("boot", "ok", f"booted in {known.boot_seconds or 0.0:.1f} s")
    return Check("boot", "failed", known.reason, _ELSEWHERE if "doctor" in known.remedy else known.remedy)


def _wasm() -> Check:
    try:
        component.wasmtime_folder()
        guest = component.checked_component()
    except SandboxUnavailable as error:
        return Check("wasm", "missing", error.reason, error.remedy)
    if component.is_compiled(guest, component.cache_folder()):
        return Check("wasm", "ok", "compiled for this machine")
    return Check("wasm", "ok", "compiled for this machine at its first use, or by codemode-server setup")


def _search(found: diagnostics.Examined) -> Check:
    if not found.problem:
        return Check("search", "ok", found.text)
    return Check("search", "missing", f"{found.level}, by {found.told}; no better, since {found.problem}", found.remedy)


def _destination(settings: SandboxSettings, checks: list[Check]) -> tuple[str, bool]:
    """Where programs will run, and whether that meets the settings."""
    *others, boot, wasm = checks
    is_required = settings.backend == "microsandbox" or settings.require == "microvm"
    obstacle = next((check for check in (*others, boot) if check.is_in_the_way), None)
    microvms = "microVMs of microsandbox, one to a session"
    if settings.backend != "wasm":
        if obstacle is None:
            return (microvms if boot.state == "ok" else f"{microvms}, if one boots here"), True
        if obstacle.name == "image" and obstacle.state == "missing":
            return f"{microvms}, once the image is pulled and if one boots here", not is_required
    if is_required:
        asks = "backend: microsandbox" if settings.backend == "microsandbox" else "require: microvm"
        return f"nothing, since `sandbox.{asks}` can't be met as things are", False
    if wasm.is_in_the_way:
        return "nothing, since no sandbox can be had as things are", False
    if settings.backend == "wasm" or obstacle is None:
        return "wasm", True
    return f"wasm, since no microVM can be had: {obstacle.told}", True
