"""The command that adds an optional part fits the way in which the product was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.support import extras
from codemode_server.support.extras import command_for
from tests.tables import rows, tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("folder", "mark", "command"), rows(TABLES["installers"]))
def test_the_command_is_that_of_the_installer(tmp_path: Path, folder: str, mark: str, command: str) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    (prefix / mark).touch()
    assert command_for("semantic", str(prefix), None) == command


@pytest.mark.parametrize(("direct_url", "package"), rows(TABLES["places"]))
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


def test_the_command_names_the_extras_that_are_installed_since_installers_remove_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(extras, "_is_installed", {"phonenumbers", "python-stdnum"}.__contains__)
    monkeypatch.setattr(extras, "_direct_url", lambda: None)
    assert extras.install_command("packages") == "pipx install --force 'codemode-server[packages,privacy]'"
