"""The command that adds an optional part fits the way in which the product was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.extras import install_command


@pytest.mark.parametrize(
    ("folder", "mark", "command"),
    [
        ("venv", "pyvenv.cfg", "pip install 'codemode-server[langfuse]'"),
        ("uv/tools/codemode-server", "uv-receipt.toml", "uv tool install 'codemode-server[langfuse]'"),
        ("pipx/venvs/codemode-server", "pipx_metadata.json", "pipx install --force 'codemode-server[langfuse]'"),
        (".cache/uv/archive-v0/x1", "pyvenv.cfg", "uvx --from 'codemode-server[langfuse]' codemode-server"),
        (".cache/pipx/x1", "pyvenv.cfg", "pipx run --spec 'codemode-server[langfuse]' codemode-server"),
    ],
)
def test_the_command_is_that_of_the_installer(tmp_path: Path, folder: str, mark: str, command: str) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    (prefix / mark).touch()
    assert install_command("langfuse", str(prefix)) == command
