"""The sandbox backends, each described by a value: a module of `sandbox/backends/` that has a `BACKEND` is one.

Selection, `setup`, `doctor`, `status` and the settings go through `backends()`; nothing else names a backend. Listing
them imports nothing heavy: the functions of a spec import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar

from pydantic import Field, create_model, model_validator

from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox import backends as package
from codemode_server.setting_types import Number, ProblemWithin, Section
from codemode_server.text import escaped

if TYPE_CHECKING:
    from codemode_server.sandbox.contract import SandboxBackend
    from codemode_server.settings import LimitSettings

Announce = Callable[[str], None]
"""Shows the person one line on what is being done."""


class SandboxSettings(Section):
    """Where programs run. Nothing ever runs outside a sandbox."""

    backend: str = "auto"
    require: Literal["any", "microvm"] = "any"
    """`microvm`: programs are refused, with the reason, where no microVM can be had; nothing less takes its place."""
    warm: Number = Field(default=1, ge=0, le=16)
    """Sandboxes kept ready: microVMs, each for one session, or `wasm` workers, each for one program (about 45 MB)."""

    @model_validator(mode="after")
    def _backend_can_meet_what_is_required(self) -> Self:
        if self.backend != "auto" and not candidates(self):
            problem = f"`{self.require}` can't be met by `backend: {self.backend}`; change one of the two"
            raise ProblemWithin(problem, "require")
        return self


Settings = TypeVar("Settings", bound=SandboxSettings)
_Contravariant = TypeVar("_Contravariant", bound=SandboxSettings, contravariant=True)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `doctor`'s report."""

    name: str
    state: Literal["ok", "missing", "failed", "skipped"]
    message: str
    remedy: str = ""

    @property
    def is_in_the_way(self) -> bool:
        return self.state in ("missing", "failed")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a backend finds of its needs on this machine."""

    checks: tuple[Check, ...]
    place: str = ""
    """Where programs would run, for the person; empty if none can run there."""
    is_ready: bool = True
    """False where `place` needs `codemode-server setup` first."""

    @property
    def obstacle(self) -> str:
        return next((check.message for check in self.checks if check.is_in_the_way), "")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a backend without starting anything, for `status`."""

    text: str
    """The backend, or why no program can run there."""
    is_available: bool = True
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What `setup` did for one need of a backend."""

    name: str
    message: str
    is_well: bool = True

    @property
    def text(self) -> str:
        return escaped(f"{self.name}: {self.message}")


class Diagnose(Protocol[_Contravariant]):
    """Looks at what the backend needs; downloads and mends nothing. `boot`: start a sandbox for it."""

    async def __call__(self, settings: _Contravariant, *, boot: bool, announce: Announce) -> Diagnosis: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec(Generic[Settings]):
    """One technology that can run programs, before anything of it is imported."""

    name: str
    """Its value of `sandbox.backend`."""
    isolation: IsolationLevel
    sandbox: str
    """What one of its sandboxes is called in messages: `microVM`."""
    documentation: str
    """One sentence for the JSON Schema."""
    settings_model: type[Settings]
    """Its settings; they are keys of `sandbox:`."""
    diagnose: Diagnose[Settings]
    outlook: Callable[[Settings], Awaitable[Outlook]]
    prepare: Callable[[Settings, Path | None, Announce], Awaitable[Step | None]]
    """Fetches and compiles ahead what the first program would wait for, from an archive if one is given; None where
    there is nothing to say."""
    create: Callable[[Settings, LimitSettings, Path | None, Announce], Awaitable[SandboxBackend]]
    """A started backend, for programs that see the given folder as /workspace. Raises `SandboxUnavailable`."""


@cache
def backends() -> tuple[BackendSpec[Any], ...]:
    """Every backend, the strongest isolation first."""
    modules = (import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__))
    specs: list[BackendSpec[Any]] = [module.BACKEND for module in modules]
    strength = list(IsolationLevel)
    return tuple(sorted(specs, key=lambda spec: strength.index(spec.isolation)))


def candidates(settings: SandboxSettings) -> list[BackendSpec[Any]]:
    """The backends that the settings allow, the best first."""
    return [
        spec
        for spec in backends()
        if settings.backend in ("auto", spec.name)
        if settings.require in ("any", spec.isolation.value)
    ]


def demand(settings: SandboxSettings) -> str:
    """The setting that lets no other backend take the place of one that can't be had; empty if there is none."""
    if settings.backend != "auto":
        return f"sandbox.backend: {settings.backend}"
    return f"sandbox.require: {settings.require}" if settings.require != "any" else ""


def settings_model() -> type[SandboxSettings]:
    """The section `sandbox` with the settings of every backend."""
    names: Any = Literal[("auto", *(spec.name for spec in backends()))]
    documentation = " ".join(f"`{spec.name}`: {spec.documentation}" for spec in backends())
    automatic = "`auto`: the first of these that works on this machine; `codemode-server doctor` shows which."
    models = dict.fromkeys(spec.settings_model for spec in backends() if spec.settings_model is not SandboxSettings)
    return create_model(
        "SandboxSettings",
        __base__=tuple(models) or SandboxSettings,
        __doc__=SandboxSettings.__doc__,
        backend=(names, Field(default="auto", description=f"{documentation} {automatic}")),
    )
