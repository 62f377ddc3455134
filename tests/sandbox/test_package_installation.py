"""Packages for programs: what `sandbox.packages` lists is installed and can be imported, in a real WASM sandbox. The
index is the test's own, on loopback; uv is real."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Limits, Outcome, Program
from codemode_server.sandbox.packages import installation
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.sandbox.registry import SandboxSettings, wasm_backend
from tests.sandbox.lab import Tools
from tests.sandbox.package_index import Index

GREETING = {"greeting/__init__.py": "from .words import hello\n", "greeting/words.py": "hello = 'hello'\n"}


class Installer:
    """Installs for settings with these packages, with a lock in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.lock = folder / "pylock.packages.toml"
        self.announced: list[str] = []

    def settings(self, *packages: str) -> SandboxSettings:
        return SandboxSettings(packages=packages, packages_lock=str(self.lock))

    async def __call__(self, *packages: str) -> Packages:
        return await installation.ensure(self.settings(*packages), self.announced.append)


@pytest.fixture
def install(package_cache: Path, index: Index, tmp_path: Path) -> Installer:
    return Installer(tmp_path)


async def run(packages: Packages, code: str) -> Outcome:
    backend = wasm_backend(packages, print)
    try:
        return await backend.run(Program(ExecutionId("x"), code, Limits()), Tools())
    finally:
        await backend.aclose()


async def test_a_listed_package_and_what_it_needs_are_installed_once_and_imported(
    install: Installer, index: Index
) -> None:
    index.add("greeting", GREETING, requires=["greeting-words>=1"])
    index.add("greeting-words", {"more_words.py": "bye = 'bye'\n"})
    made = await install("greeting")
    assert made.problem == ""
    assert [(it.name, it.version, it.modules, it.wasm_obstacle) for it in made.installed] == [
        ("greeting", "1.0", ("greeting",), ""),
        ("greeting-words", "1.0", ("more_words",), ""),
    ]
    code = "import greeting, more_words\n[greeting.hello, more_words.bye, greeting.__cached__, greeting.__file__]"
    compiled = "/packages/greeting/__pycache__/__init__.cpython-314.pyc"
    outcome = await run(made, code)
    assert outcome.value == ["hello", "bye", compiled, "/packages/greeting/__init__.py"], outcome.error
    assert any("installing 2 packages for programs: greeting, greeting-words" in it for it in install.announced)
    index.requests.clear()
    install.announced.clear()
    assert await install("greeting") == made == installation.find(install.settings("greeting"))
    assert index.requests == install.announced == [], "from the lock and the folder, without a network"
