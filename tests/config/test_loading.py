"""Where the file is looked for, and what its paths are relative to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codemode_server.config import load
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError

if TYPE_CHECKING:
    from tests.config.conftest import Folder


@pytest.fixture(autouse=True)
def user_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(folder.path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.path / "home" / ".config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder.path / "home" / ".local" / "share"))
    from codemode_server.config.places import user_file

    return user_file()


def _names(path: Path | None, cwd: Path, **environ: str) -> list[str]:
    return list(load(path, environ=environ, cwd=cwd, require_trust=False).settings.servers)


def test_the_file_is_the_given_one_then_the_variables_then_the_folders_then_the_users(
    folder: Folder, user_folder: Path
) -> None:
    folder.write(str(user_folder.relative_to(folder.path)), "servers: {users: {command: x}}")
    here = folder.path / "project"
    here.mkdir()
    assert _names(None, here) == ["users"]
    folder.write("project/upstream.yaml", "servers: {yaml: {command: x}}")
    assert _names(None, here) == ["yaml"]
    variable = folder.write("other.yaml", "servers: {variables: {command: x}}")
    assert _names(None, here, CODEMODE_CONFIG=str(variable)) == ["variables"]
    folder.write("given.yaml", "servers: {given: {command: x}}")
    assert _names(Path("../given.yaml"), here, CODEMODE_CONFIG=str(variable)) == ["given"]


def test_no_file_is_no_error_and_says_how_to_begin(folder: Folder, user_folder: Path) -> None:
    loaded = load(None, environ={}, cwd=folder.path)
    assert loaded.settings.servers == Settings().servers
    assert (loaded.path, loaded.base_dir) == (None, user_folder.parent)
    assert loaded.warnings == (
        f"no configuration file, so there are no servers: $CODEMODE_CONFIG is not set, and neither "
        f"{folder.path}/upstream.yaml nor {user_folder} exists. `codemode-server init` creates the latter; "
        "`--config FILE` uses another file",
    )


def test_a_file_here_that_is_not_used_is_named_with_the_reason(folder: Folder, user_folder: Path) -> None:
    folder.write("upstream.yaml", "servers: {s: {command: x}}")
    (message,) = load(None, environ={}, cwd=folder.path).warnings
    assert f" {folder.path}/upstream.yaml is not trusted, and {user_folder} does not exist. " in message


def test_a_given_file_that_is_not_there_is_an_error(folder: Folder) -> None:
    with pytest.raises(SettingsError) as by_option:
        load(Path("no.yaml"), environ={}, cwd=folder.path)
    assert str(by_option.value) == (
        "no.yaml: there is no such file (--config); correct the path, or run `codemode-server init --config no.yaml`"
    )
    with pytest.raises(SettingsError) as by_variable:
        load(None, environ={"CODEMODE_CONFIG": "no.yaml"}, cwd=folder.path)
    assert str(by_variable.value) == (
        "no.yaml: there is no such file ($CODEMODE_CONFIG); correct the path, or run "
        "`codemode-server init --config no.yaml`"
    )
    with pytest.raises(SettingsError, match=r"^\.: is a folder; give the file \(--config\), for instance "):
        load(Path(), environ={}, cwd=folder.path)


def test_paths_are_relative_to_the_file_wherever_the_host_starts_us(folder: Folder) -> None:
    settings = folder.load(
        """
        servers:
          on-path: {command: npx}
          beside: {command: ./bin/server, cwd: data}
          above: {command: ../server}
          home: {command: ~/bin/server, cwd: "~"}
          absolute: {command: /bin/server, cwd: /tmp}
        state: {dir: state}
        """,
        name="conf/upstream.yaml",
    ).settings
    conf, home = folder.path / "conf", folder.path / "home"
    assert {name: (server.command, server.cwd) for name, server in settings.servers.items()} == {
        "on-path": ("npx", str(conf)),
        "beside": (f"{conf}/bin/server", f"{conf}/data"),
        "above": (f"{folder.path}/server", str(conf)),
        "home": (f"{home}/bin/server", str(home)),
        "absolute": ("/bin/server", "/tmp"),
    }
    assert (settings.state.dir, settings.state.skills) == (f"{conf}/state", f"{conf}/skills")
