"""The command by which a host starts this product is one that stays when the product is upgraded."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.config.connecting import launch_words


@pytest.fixture(autouse=True)
def _no_command_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("folder", ["archive-v0/x", "environments-v2/x"])
def test_uvx_is_named_instead_of_an_environment_in_its_cache(tmp_path: Path, folder: str) -> None:
    prefix = tmp_path / "cache/uv" / folder
    mine = script(prefix / "bin/codemode-server")
    assert launch_words(str(mine), prefix / "bin/python", str(prefix)) == ["uvx", "codemode-server"]
    uvx = script(tmp_path / "bin/uvx")
    assert launch_words(str(mine), prefix / "bin/python", str(prefix)) == [str(uvx), "codemode-server"]


def test_pipx_run_takes_no_file_of_the_folder_in_which_the_host_works(tmp_path: Path) -> None:
    """Without `--spec`, pipx runs a file `codemode-server` of a clone as a script."""
    prefix = tmp_path / ".cache/pipx/0123456789abcde"
    mine = script(prefix / "bin/codemode-server")
    words = launch_words(str(mine), prefix / "bin/python", str(prefix))
    assert words == ["pipx", "run", "--spec", "codemode-server", "codemode-server"]


@pytest.mark.parametrize("folder", ["share/pipx/venvs/codemode-server", "share/uv/tools/codemode-server"])
def test_an_installed_tool_is_named_by_its_link(tmp_path: Path, folder: str) -> None:
    """The link stays when an upgrade replaces the environment."""
    prefix = tmp_path / folder
    mine = script(prefix / "bin/codemode-server")
    link = tmp_path / "links/codemode-server"
    link.parent.mkdir()
    link.symlink_to(mine)
    assert launch_words(str(link), prefix / "bin/python", str(prefix)) == [str(link)]


def test_a_module_without_a_script_is_named_by_the_command_on_the_path_or_by_its_interpreter(tmp_path: Path) -> None:
    started, python = tmp_path / "codemode_server/__main__.py", tmp_path / "venv/bin/python"
    assert launch_words(str(started), python, str(tmp_path)) == [str(python), "-P", "-m", "codemode_server"]
    found = script(tmp_path / "bin/codemode-server")
    assert launch_words(str(started), python, str(tmp_path)) == [str(found)]
