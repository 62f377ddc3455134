"""What the tests of packages share: to install from an index of the test, and to run a program with what came of it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm import build, component
from codemode_server.sandbox.contract import Limits, Outcome, Program
from codemode_server.sandbox.packages import installation
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.sandbox.registry import SandboxSettings, wasm_backend
from tests.sandbox.lab import Tools


class Installer:
    """Installs for settings with these packages, with a lock in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "pylock.packages.toml"
        self.announced: list[str] = []

    def settings(self, *packages: str) -> SandboxSettings:
        return SandboxSettings(packages=packages, packages_lock=str(self.lock))

    async def __call__(self, *packages: str) -> Packages:
        return await installation.ensure(self.settings(*packages), self.announced.append)

    def forget(self, package_cache: Path) -> None:
        """Remove what is installed and what was fetched; the lock stays."""
        shutil.rmtree(package_cache)


def make_cache(folder: Path) -> Path:
    """Make the product's folder in a user's cache, of which `folder` is the path; the sandbox is not compiled again."""
    cache = folder / "codemode-server"
    cache.mkdir(parents=True, mode=0o700)
    if not build.is_current():
        build.build_component()
    (cache / "wasm").symlink_to(component.cache_folder())
    return cache


def skip_without_network(problem: str) -> None:
    """Skip a test that needs PyPI if this is why packages are missing; in CI it fails."""
    if re.search("can't be (read|downloaded)", problem) and os.environ.get("CI") != "true":
        pytest.skip(problem)


async def run(packages: Packages, code: str) -> Outcome:
    backend = wasm_backend(packages, print)
    try:
        return await backend.run(Program(ExecutionId("x"), code, Limits()), Tools())
    finally:
        await backend.aclose()
