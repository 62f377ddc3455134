"""The sandbox backends: the modules of `sandbox/backends/`, each of which exports its description as `BACKEND`.

Selection, `setup`, `doctor`, `status` and the settings use `backends()`; no other module names a backend. Listing them
imports nothing heavy: the functions of a spec import what they need when they are called.
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
"""Shows the person one line about the current step."""


class SandboxSettings(Section):
    """Where programs run. Nothing ever runs outside a sandbox."""

    backend: str = "auto"
    require: Literal["any", "microvm"] = "any"
    """`microvm`: where microVMs do not work, programs are refused with the reason, and no weaker sandbox is used."""
    warm: Number = Field(default=1, ge=0, le=16)
    """Sandboxes started in advance: microVMs, each for one session, or `wasm` workers, each for one program (about 45
    MB). After several programs at once, as many workers are kept for five seconds; with 0, none are."""

    @model_validator(mode="after")
    def _backend_can_meet_requirement(self) -> Self:
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
    def is_obstacle(self) -> bool:
        return self.state in ("missing", "failed")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a backend works on this machine, by its checks."""

    checks: tuple[Check, ...]
    place: str = ""
    """Description of where programs would run; empty if none can."""
    is_ready: bool = True
    """False if `codemode-server setup` has to run first."""

    @property
    def obstacle(self) -> str:
        return next((check.message for check in self.checks if check.is_obstacle), "")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What `status` can say about a backend without starting anything."""

    text: str
    """The backend, or why no program can run there."""
    is_available: bool = True
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What `setup` did for a backend."""

    name: str
    message: str
    is_successful: bool = True

    @property
    def text(self) -> str:
        return escaped(f"{self.name}: {self.message}")


class Diagnose(Protocol[_Contravariant]):
    """Checks what the backend needs; downloads and changes nothing. `boot`: also start a sandbox."""

    async def __call__(self, settings: _Contravariant, *, boot: bool, announce: Announce) -> Diagnosis: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec(Generic[Settings]):
    """Description of a technology that can run programs; importing it imports nothing of the technology."""

    name: str
    """The value of `sandbox.backend` that selects it."""
    isolation: IsolationLevel
    sandbox: str
    """Name of one of its sandboxes in messages, for instance `microVM`."""
    documentation: str
    """One sentence for the JSON Schema."""
    settings_model: type[Settings]
    """Its settings, which become keys of `sandbox:`."""
    diagnose: Diagnose[Settings]
    outlook: Callable[[Settings], Awaitable[Outlook]]
    prepare: Callable[[Settings, Path | None, Announce], Awaitable[Step | None]]
    """Downloads and compiles in advance what the first program would wait for, from an archive if one is given. None if
    there is nothing to report."""
    create: Callable[[Settings, LimitSettings, Path | None, Announce], Awaitable[SandboxBackend]]
    """Starts the backend for programs that see the given folder as /workspace. Raises `SandboxUnavailable`."""


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
    """The setting that rules out other backends if the best one does not work; empty if none does."""
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
