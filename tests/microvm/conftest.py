"""A home of microsandbox for one test, with a path short enough for the sockets in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.sandbox.backends.microvm import runtime


@pytest.fixture
def msb_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An MSB_HOME with nothing in it that is not there yet."""
    if runtime.version() is None:
        pytest.skip("the package 'microsandbox' is not there for this platform")
    folder = Path(tempfile.mkdtemp(prefix="mh", dir="/tmp"))
    monkeypatch.setenv("MSB_HOME", str(folder / "home"))
    yield folder / "home"
    shutil.rmtree(folder)
