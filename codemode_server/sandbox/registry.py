"""The sandbox backends and the settings of the section `sandbox`.

Selection, `setup`, `doctor`, `status` and the settings use `BACKENDS`. This module imports nothing heavy.
"""

from __future__ import annotations

import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.packages.installed import NO_PACKAGES, ON_NODES, ON_WINDOWS, Packages, names_of
from codemode_server.support.setting_types import Holds, Number, ProblemWithin, Seconds, Section

if TYPE_CHECKING:
    from codemode_server.config.settings import LimitSettings
    from codemode_server.sandbox.contract import SandboxBackend

Announce = Callable[[str], None]
"""Shows the person one line about the current step."""
DEFAULT_IMAGE = (
    "docker.io/library/python:3.14-slim@sha256:b877e50bd90de10af8d82c57a022fc2e0dc731c5320d762a27986facfc3355c1"
)
"""The official image, pinned by digest, since tags can change."""


class SandboxSettings(Section):
    """Where programs run. Nothing ever runs outside a sandbox."""

    read_at_start = None

    backend: Literal["auto", "microsandbox", "wasm", "remote"] = "auto"
    """`microsandbox`: a microVM of its own for each session, where this machine can boot them. `wasm`: CPython inside
    WebAssembly, which works everywhere. `auto`: the first of these that works on this machine; `codemode-server doctor`
    shows which. `remote`: the sandboxes of other machines, which `nodes` names."""
    require: Literal["any", "microvm"] = "any"
    """`microvm`: where microVMs do not work, programs are refused with the reason, and no weaker sandbox is used."""
    warm: Number = Field(default=1, ge=0, le=16)
    """Sandboxes started in advance: microVMs, each for one session, or `wasm` workers, each for one program (about 45
    MB). After several programs at once, as many workers stay until none ran for five seconds; with 0, none do."""
    image: str = Field(default=DEFAULT_IMAGE, max_length=500)
    """OCI image of the microVMs, with Python 3.11 or newer as `python3`; a digest fixes its content. Pulled at first
    use, or in advance with `codemode-server setup`."""
    memory_mb: Number = Field(default=512, ge=256, le=16_384)
    """Memory of a microVM, MiB; never less than `limits.memory_mb` and 192 more."""
    cpus: Number = Field(default=1, ge=1, le=16)
    """Processors of a microVM."""
    disk_mb: Number = Field(default=256, ge=16, le=8_192)
    """Size of /tmp in a microVM, MiB, which is in its memory. Everything else but /workspace is read-only."""
    idle_seconds: Seconds = 900.0
    """A microVM idle for this time is ended; the next program gets another."""
    age_seconds: Seconds = 7_200.0
    """An older microVM runs no further program and is replaced."""

    packages: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=50)
    """Packages that programs can import, such as `openpyxl>=3.1`. Installed at the next start, or with `codemode-server
    setup`, from wheels only; none of their code runs outside the sandbox."""
    packages_lock: str = Field(default="pylock.packages.toml", max_length=1_000)
    """File of their versions and hashes; made when they are installed, and relative to the configuration file. Commit
    it to have the same versions elsewhere."""

    nodes: tuple[Annotated[str, Field(pattern=r"^[^\s/@]+:\d{1,5}$")], ...] = Field(default=(), max_length=100)
    """Machines that run `codemode-server node`, as `host:port`; a name may have several addresses. Connections use TLS,
    except to this machine if there is no `node_ca`."""
    node_token: Annotated[str | None, Holds.SECRET] = Field(default=None, repr=False, max_length=1_000)
    """The token of the nodes, by reference: `${NAME}` or `${keyring:NAME}`."""
    node_ca: str | None = Field(default=None, max_length=1_000)
    """File with the certificates to trust, or the nodes' own; relative to the configuration file. Default: those that
    the system trusts."""

    @field_validator("packages")
    @classmethod
    def _packages_are_names(cls, packages: tuple[str, ...]) -> tuple[str, ...]:
        if packages:
            from codemode_server.sandbox.packages.requirements import check

            check(packages)
        return packages

    @field_validator("packages_lock")
    @classmethod
    def _lock_has_its_name(cls, lock: str) -> str:
        if not re.search(r"(^|[/\\])pylock\.[A-Za-z0-9_-]+\.toml$", lock):
            raise ValueError("the file must be named `pylock.NAME.toml`, as the standard for locks demands")
        return lock

    @model_validator(mode="after")
    def _backend_can_meet_requirement(self) -> Self:
        if not candidates(self):
            problem = f"`{self.require}` can't be met by `backend: {self.backend}`; change one of the two"
            raise ProblemWithin(problem, "require")
        if self.backend == "remote" and not (self.nodes and self.node_token):
            raise ProblemWithin("`remote` needs `nodes` and `node_token`", "backend")
        return self


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: Literal["ok", "missing", "failed", "skipped"]
    message: str
    remedy: str = ""

    @property
    def is_obstacle(self) -> bool:
        return self.state in ("missing", "failed")

    @property
    def line(self) -> str:
        """The check by itself, where there is no table of checks and remedies."""
        return f"{self.name}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    checks: tuple[Check, ...]
    place: str = ""
    """Description of where programs would run; empty if none can."""
    is_ready: bool = True
    """False if `codemode-server setup` has to run first."""

    @property
    def obstacle(self) -> str:
        return next((check.message for check in self.checks if check.is_obstacle), "")


@dataclass(frozen=True)
class BackendSpec(ABC):
    """One backend. Its methods import what they need."""

    name: str
    """The value of `sandbox.backend` that selects it."""
    isolation: IsolationLevel | None
    """None if the settings name the machines that decide; `auto` never chooses it."""
    sandbox: str
    """Name of one of its sandboxes in messages."""

    @abstractmethod
    async def diagnose(self, settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
        """Checks what the backend needs; downloads and changes nothing. `boot`: also start a sandbox."""

    @abstractmethod
    async def prepare(self, settings: SandboxSettings, archive: Path | None, announce: Announce) -> Check | None:
        """Downloads and compiles in advance what the first program would wait for, from an archive if one is given.
        None if there is nothing to report."""

    @abstractmethod
    async def create(
        self,
        settings: SandboxSettings,
        limits: LimitSettings,
        workspace: Path | None,
        packages: Packages,
        announce: Announce,
    ) -> SandboxBackend:
        """Starts the backend for programs that see the given folder as /workspace and import these packages. Raises
        `SandboxUnavailable`."""


class _MicroVm(BackendSpec):
    async def diagnose(self, settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
        from codemode_server.sandbox.backends.microvm import diagnosis

        return await diagnosis.diagnose(settings, boot=boot, announce=announce)

    async def prepare(self, settings: SandboxSettings, archive: Path | None, announce: Announce) -> Check | None:
        from codemode_server.sandbox.backends.microvm import diagnosis

        return await diagnosis.prepare(settings, archive, announce)

    async def create(
        self,
        settings: SandboxSettings,
        limits: LimitSettings,
        workspace: Path | None,
        packages: Packages,
        announce: Announce,
    ) -> SandboxBackend:
        from codemode_server.sandbox.backends.microvm import backend

        return await backend.create(settings, limits, workspace, packages, announce)


class _Wasm(BackendSpec):
    async def diagnose(self, settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
        from codemode_server.sandbox.backends.wasm import component

        return await component.diagnose()

    async def prepare(self, settings: SandboxSettings, archive: Path | None, announce: Announce) -> Check | None:
        from codemode_server.sandbox.backends.wasm import component

        return await component.prepare(announce) if self in candidates(settings) else None

    async def create(
        self,
        settings: SandboxSettings,
        limits: LimitSettings,
        workspace: Path | None,
        packages: Packages,
        announce: Announce,
    ) -> SandboxBackend:
        from codemode_server.sandbox.backends.wasm.backend import WasmBackend
        from codemode_server.sandbox.contract import started

        return await started(WasmBackend(warm=settings.warm, packages=packages, announce=announce))


class _Remote(BackendSpec):
    async def diagnose(self, settings: SandboxSettings, *, boot: bool, announce: Announce) -> Diagnosis:
        from codemode_server.sandbox.backends.remote import backend

        return await backend.diagnose(settings) if self in candidates(settings) else Diagnosis(())

    async def prepare(self, settings: SandboxSettings, archive: Path | None, announce: Announce) -> Check | None:
        return None

    async def create(
        self,
        settings: SandboxSettings,
        limits: LimitSettings,
        workspace: Path | None,
        packages: Packages,
        announce: Announce,
    ) -> SandboxBackend:
        from codemode_server.sandbox.backends.remote.backend import RemoteBackend
        from codemode_server.sandbox.contract import started

        return await started(RemoteBackend(settings, workspace, packages))


BACKENDS: tuple[BackendSpec, ...] = (
    _MicroVm("microsandbox", IsolationLevel.MICROVM, "microVM"),
    _Wasm("wasm", IsolationLevel.WASM, "wasm"),
    _Remote("remote", None, "sandbox node"),
)
"""The strongest isolation first."""


def compile_early(settings: SandboxSettings) -> None:
    """Begin to compile the WASM sandbox for this machine, if programs probably run in it and it is not compiled yet.
    Starting the sandbox waits for this and reports its errors."""
    allowed = {spec.isolation for spec in candidates(settings)}
    if IsolationLevel.WASM not in allowed:
        return
    from codemode_server.sandbox.backends.microvm import runtime
    from codemode_server.sandbox.backends.wasm import component

    if IsolationLevel.MICROVM not in allowed or not runtime.is_expected():
        with suppress(SandboxUnavailable, OSError):
            component.start_compiling(component.checked_component(), component.cache_folder())


async def install_packages(settings: SandboxSettings, announce: Announce) -> Packages:
    """The packages that the settings list, installed now if they are not."""
    if (known := _packages_without_installation(settings)) is not None:
        return known
    from codemode_server.sandbox.packages import installation

    return await installation.ensure(settings, announce)


def installed_packages(settings: SandboxSettings) -> Packages:
    """The packages that the settings list, if they are installed; installs nothing. Blocks."""
    if (known := _packages_without_installation(settings)) is not None:
        return known
    from codemode_server.sandbox.packages import installation

    return installation.find(settings)


def _packages_without_installation(settings: SandboxSettings) -> Packages | None:
    """The answer if nothing is listed, or nothing can be installed here; None if an installation decides."""
    if not settings.packages:
        return NO_PACKAGES
    if settings.backend == "remote":
        return ON_NODES
    return ON_WINDOWS if sys.platform == "win32" else None


def package_checks(settings: SandboxSettings, packages: Packages, *, in_wasm: bool = False) -> list[Check]:
    """A check for each package, or one that says why there are none. `in_wasm`: programs run in WASM, so a listed
    package that can't be imported there is reported as missing."""
    if packages.problem:
        return [Check("packages", "missing", packages.problem, packages.remedy)]
    from packaging.utils import canonicalize_name

    listed = set(map(canonicalize_name, names_of(settings.packages)))
    checks = []
    for it in packages.installed:
        line = f"{it.name} {it.version}, {it.size_bytes / 1e6:.1f} MB"
        if it.wasm_obstacle:
            line += f"; not in WASM: {it.wasm_obstacle}"
        if in_wasm and it.wasm_obstacle and it.name in listed:
            remedy = f"{it.name} may work in a microVM; without one, remove it from sandbox.packages"
            checks.append(Check("package", "missing", line, remedy))
        else:
            checks.append(Check("package", "ok", line))
    return checks


def wasm_backend(packages: Packages, announce: Announce) -> SandboxBackend:
    """A WASM backend that is not started, for what is done with packages when they are installed."""
    from codemode_server.sandbox.backends.wasm.backend import WasmBackend

    return WasmBackend(packages=packages, announce=announce)


def wasm_build() -> str:
    """Identifies the WASM sandbox's build: packages are compiled and tried for one."""
    from codemode_server.sandbox.backends.wasm import build

    return build.read_stamp(build.COMPONENT).get("component", "")


def processor_features() -> str:
    """Model and flags from /proc/cpuinfo, or what `platform` knows: part of the key of what is valid for it only."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return "\n".join(sorted({it for it in text.splitlines() if it.startswith(("flags", "Features", "model name"))}))


def candidates(settings: SandboxSettings) -> list[BackendSpec]:
    """The backends that the settings allow, the best first."""
    return [
        spec
        for spec in BACKENDS
        if settings.backend == spec.name or (settings.backend == "auto" and spec.isolation is not None)
        if spec.isolation is None or settings.require in ("any", spec.isolation.value)
    ]


def demand(settings: SandboxSettings) -> str:
    """The setting that rules out other backends if the best one does not work; empty if none does."""
    if settings.backend != "auto":
        return f"sandbox.backend: {settings.backend}"
    return f"sandbox.require: {settings.require}" if settings.require != "any" else ""


def proposed_extra(settings: SandboxSettings) -> str | None:
    """The extra with which this machine could run programs in stronger isolation; None if it needs none."""
    from codemode_server.sandbox.backends.microvm import runtime

    has_microvms = any(it.isolation is IsolationLevel.MICROVM for it in candidates(settings))
    return "microvm" if has_microvms and runtime.is_proposed() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What `codemode-server node` offers, and to whom."""

    host: str
    port: int
    """0: any that is free."""
    token: str = field(repr=False)
    certificate: Path | None
    """PEM file with its key; None on loopback only."""
    workspaces: Path | None
    """The shared folder with a folder for each principal."""
    backend: Literal["auto", "microsandbox", "wasm"]
    programs: int
    """How many run at once."""


@dataclass(slots=True)
class NodeControl:
    """What the process that serves a node sees of it, and how it stops it."""

    programs: int = 0
    """How many run now."""
    is_stopping: bool = False
    """Once it is set, the node takes no more connections, and ends when the last program has ended."""


async def serve_node(options: NodeOptions, announce: Announce, control: NodeControl) -> None:
    """Offer the sandboxes of this machine to others; raises as `backends.remote.node.serve`."""
    from codemode_server.sandbox.backends.remote import node

    await node.serve(options, announce, control)
