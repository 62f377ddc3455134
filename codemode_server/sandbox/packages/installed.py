"""The packages of one installation: a read-only folder that programs see as /packages, and what is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GUEST_FOLDER = "/packages"
"""Where programs see the folder."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    """As the package index has it."""
    version: str
    modules: tuple[str, ...]
    """The names that programs import, without dots."""
    size_bytes: int
    """Total of its unpacked files."""
    wasm_obstacle: str = ""
    """Why programs in WASM can't import it; empty if they can."""


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages that programs can import, or why those that `sandbox.packages` lists are not installed."""

    folder: Path | None = None
    """On the host; None if nothing is installed."""
    installed: tuple[Package, ...] = ()
    """Those that the settings list, and their dependencies."""
    problem: str = ""
    """Why the listed ones are not installed; empty if they are, or if none are listed."""
    remedy: str = ""
    """What the person can do about it."""

    def modules(self, *, in_wasm: bool) -> frozenset[str]:
        """The names that programs in such a sandbox can import."""
        return frozenset(
            module
            for package in self.installed
            if not (in_wasm and package.wasm_obstacle)
            for module in package.modules
        )


NO_PACKAGES = Packages()
ON_NODES = Packages(problem="sandbox nodes have no packages", remedy="remove sandbox.packages")
ON_WINDOWS = Packages(
    problem="programs on Windows get no packages, since its WASM sandbox has no safe folders", remedy="use WSL"
)


def names_of(requirements: Iterable[str]) -> list[str]:
    """The names in `sandbox.packages`, without versions."""
    return [re.split(r"[^\w.-]", it.strip(), maxsplit=1)[0] for it in requirements]
