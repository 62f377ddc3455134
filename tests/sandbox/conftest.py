"""Every backend there is, one of each for all tests of this folder, and the folder that its programs see as /workspace.

A test that takes `backend` or `lab` runs on each backend; a file about one of them has a `backend` fixture of its own,
which gives that one. A backend is started when the first test needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.backends.wasm import build
from codemode_server.sandbox.contract import SandboxBackend
from codemode_server.sandbox.packages.installed import NO_PACKAGES
from codemode_server.sandbox.registry import BACKENDS, SandboxSettings
from tests.sandbox.lab import MICROVM, Lab
from tests.sandbox.nodes import TOKEN, node
from tests.sandbox.package_folder import make_packages
from tests.sandbox.package_index import Index, package_index
from tests.sandbox.packages_lab import Installer, make_cache

EMPTY = """
import os, shutil
for entry in os.scandir("/workspace"):
    shutil.rmtree(entry.path, ignore_errors=True) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
"""
MARKS: dict[IsolationLevel | None, Any] = {IsolationLevel.MICROVM: MICROVM}


def _beside(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.getbasetemp() / f"beside-{name}"


async def _started(name: str, factory: pytest.TempPathFactory) -> AsyncIterator[SandboxBackend]:
    workspace = _beside(factory, name) / "workspace"
    workspace.mkdir(parents=True)
    settings: dict[str, Any] = {"backend": name, "warm": 2}
    async with contextlib.AsyncExitStack() as stack:
        if name == "microsandbox":
            settings |= {"image": os.environ["CODEMODE_VM_IMAGE"], "warm": 1}
        elif not build.is_current():
            build.build_component()
        if name == "remote":
            started = await stack.enter_async_context(node("--workspaces", workspace.parent))
            settings |= {"nodes": [started.address], "node_token": TOKEN}
        chosen, limits = SandboxSettings.model_validate(settings), LimitSettings()
        packages = make_packages(_beside(factory, "packages")) if name == "microsandbox" else NO_PACKAGES
        (spec,) = (spec for spec in BACKENDS if spec.name == name)
        made = await spec.create(chosen, limits, workspace, packages, _print)
        tending = asyncio.create_task(made.tend())
        yield made
        tending.cancel()
        await asyncio.wait([tending])
        await made.aclose()


def _print(line: str) -> None:
    print(line, file=sys.stderr)


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def wasm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxBackend]:
    async for made in _started("wasm", tmp_path_factory):
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def microsandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxBackend]:
    async for made in _started("microsandbox", tmp_path_factory):
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def remote(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxBackend]:
    async for made in _started("remote", tmp_path_factory):
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What tests the guest's code alone needs no node."""
    items[:] = [it for it in items if not (it.get_closest_marker("portable") and "[remote" in it.name)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("microvm") and not os.environ.get("CODEMODE_VM"):
        pytest.skip("needs a microVM: make vmtest")


@pytest.fixture(params=[pytest.param(spec.name, marks=MARKS.get(spec.isolation, ())) for spec in BACKENDS])
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    made: SandboxBackend = request.getfixturevalue(request.param)
    return made


@pytest_asyncio.fixture(loop_scope="session")
async def beside(backend: SandboxBackend, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the host with nothing in it but `workspace`, which is empty. It stays the same for all tests: a
    microVM is given its workspace when it boots."""
    folder = _beside(tmp_path_factory, backend.name)
    if any((folder / "workspace").iterdir()):
        # From inside: a microVM remembers for some seconds what was there, as each file system over a network does.
        await Lab(backend, folder / "workspace").run(EMPTY)
    for entry in [*(folder / "workspace").iterdir(), *folder.iterdir()]:
        if entry.name != "workspace":
            _remove(entry)
    return folder


@pytest.fixture
def workspace(beside: Path) -> Path:
    return beside / "workspace"


@pytest.fixture
def lab(backend: SandboxBackend, workspace: Path) -> Lab:
    return Lab(backend, workspace)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    with contextlib.suppress(OSError):
        path.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """A package index that uv takes for the only one."""
    with package_index() as served:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{served.address}/simple")
        monkeypatch.setenv("UV_NO_CACHE", "1")
        yield served


@pytest.fixture
def package_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the installations of packages, in a cache of the test's own."""
    cache = make_cache(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    return cache / "packages"


@pytest.fixture
def install(package_cache: Path, index: Index, tmp_path: Path) -> Installer:
    return Installer(tmp_path)
