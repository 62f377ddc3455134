"""The real servers, installed once; the test fails in CI where they can't be had, and is skipped elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.tasks.servers import MANY, entries
from benchmarks.tasks.task import Place
from scripts.npm import Unavailable
from scripts.real_servers import commands
from tests.hosts.conftest import _sandbox_is_compiled  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def real_servers() -> None:
    have(commands)


@pytest.fixture(scope="session")
def task_servers() -> None:
    have(lambda: entries(Place(Path("/data")), MANY))


def have(install: Callable[[], object]) -> None:
    """Skips where PyPI or npm can't be had, but not in CI, where that would go unnoticed for ever."""
    try:
        install()
    except Unavailable as reason:
        if os.environ.get("CI") == "true" and shutil.which("npm"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))
