"""The real servers, installed once; the test fails in CI where they can't be had, and is skipped elsewhere."""

from __future__ import annotations

import os
import shutil

import pytest

from codemode_server.sandbox.backends.wasm import build, component
from scripts.npm import Unavailable
from scripts.real_servers import commands


@pytest.fixture(scope="session")
def real_servers() -> None:
    """Skips where PyPI or npm can't be had, but not in CI, where that would go unnoticed for ever."""
    try:
        commands()
    except Unavailable as reason:
        if os.environ.get("CI") == "true" and shutil.which("npm"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@pytest.fixture(autouse=True, scope="session")
def _sandbox_is_compiled() -> None:
    """Once for this machine, so that no test takes the minute which that may take."""
    if not build.is_current():
        build.build_component()
    component.native_code(component.checked_component(), component.cache_folder(), print)
