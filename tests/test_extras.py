"""The command that adds an optional part fits the way in which the product was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.extras import command_for


@pytest.mark.parametrize(
    ("folder", "mark", "command"),
    [
        ("venv", "pyvenv.cfg", "pip install 'codemode-server[semantic]'"),
        ("uv/tools/codemode-server", "uv-receipt.toml", "uv tool install 'codemode-server[semantic]'"),
        ("pipx/venvs/codemode-server", "pipx_metadata.json", "pipx install --force 'codemode-server[semantic]'"),
        (".cache/uv/archive-v0/x1", "pyvenv.cfg", "uvx --from 'codemode-server[semantic]' codemode-server"),
        (".cache/pipx/x1", "pyvenv.cfg", "pipx run --spec 'codemode-server[semantic]' codemode-server"),
    ],
)
def test_the_command_is_that_of_the_installer(tmp_path: Path, folder: str, mark: str, command: str) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    (prefix / mark).touch()
    assert command_for("semantic", str(prefix), None) == command


@pytest.mark.parametrize(
    ("direct_url", "package"),
    [
        ({"url": "file:///home/ann/code%20mode", "dir_info": {}}, "'/home/ann/code mode[semantic]'"),
        (
            {"url": "file:///home/ann/clone", "dir_info": {"editable": True}},
            "--editable '/home/ann/clone[semantic]'",
        ),
        (
            {"url": "file:///tmp/codemode_server-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'/tmp/codemode_server-0.1.0-py3-none-any.whl[semantic]'",
        ),
        (
            {
                "url": "https://example.org/codemode.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "0" * 40},
            },
            "'codemode-server[semantic] @ git+https://example.org/codemode.git@main'",
        ),
        (
            {"url": "ssh://git@example.org/all.git", "vcs_info": {"vcs": "git"}, "subdirectory": "codemode"},
            "'codemode-server[semantic] @ git+ssh://git@example.org/all.git#subdirectory=codemode'",
        ),
        (
            {"url": "https://example.org/codemode.whl", "archive_info": {}},
            "'codemode-server[semantic] @ https://example.org/codemode.whl'",
        ),
    ],
)
def test_what_was_not_installed_from_an_index_is_installed_from_the_same_place(
    direct_url: object, package: str, tmp_path: Path
) -> None:
    """The name alone would be looked up in an index, where it may be somebody else's."""
    (tmp_path / "pipx_metadata.json").touch()
    found = command_for("semantic", str(tmp_path), json.dumps(direct_url))
    assert found == f"pipx install --force {package}"


def test_the_command_shows_no_password_of_an_address(tmp_path: Path) -> None:
    direct_url = json.dumps({"url": "https://ann:s3cret@example.org/codemode.whl", "archive_info": {}})
    command = command_for("semantic", str(tmp_path), direct_url)
    assert command == "pip install 'codemode-server[semantic] @ https://example.org/codemode.whl'"
