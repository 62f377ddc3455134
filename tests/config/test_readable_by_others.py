"""Files with secrets that other users of the machine can read draw a warning with what mends it; they are used."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.config import load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of Windows are in the user's profile")
CONFIG = """
servers:
  web: {{ url: "http://h.example/mcp", headers: {{ Authorization: "Bearer {token}" }} }}
"""
SECRET = "ghp_0123456789abcdef"


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others can enter; pytest's own are in a folder that they can't."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(os.path.realpath(name))


def written(path: Path, text: str, mode: int) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def warnings(folder: Path) -> tuple[str, ...]:
    return load(folder / "upstream.yaml", environ={}, cwd=folder).warnings


@pytest.mark.parametrize(("mode", "is_warned_of"), [(0o644, True), (0o604, True), (0o600, False), (0o400, False)])
def test_a_dotenv_that_others_can_read_is_told_once_with_what_mends_it(
    folder: Path, mode: int, is_warned_of: bool
) -> None:
    written(folder / "upstream.yaml", CONFIG.format(token="${TOKEN}"), 0o644)
    file = written(folder / ".env", f"TOKEN={SECRET}\n", mode)
    warning = f".env: other users of this machine can read the secrets in it; run: chmod 600 {shlex.quote(str(file))}"
    assert warnings(folder) == ((warning,) if is_warned_of else ())


def test_a_configuration_is_told_of_only_if_a_secret_stands_in_it(folder: Path) -> None:
    written(folder / "upstream.yaml", CONFIG.format(token="${TOKEN}"), 0o644)
    written(folder / ".env", f"TOKEN={SECRET}\n", 0o600)
    assert warnings(folder) == ()
    file = written(folder / "upstream.yaml", CONFIG.format(token=SECRET), 0o644)
    (warning,) = warnings(folder)
    assert warning.endswith(f"; run: chmod 600 {shlex.quote(str(file))}")
    assert SECRET not in warning
