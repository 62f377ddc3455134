"""Where the hosts keep their files: one table, for three systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.config.hosts import HOSTS, System, SystemName
from tests.tables import rows, tables

TABLES = tables(__file__)

HOME = Path("/home/ada")


def first(host: str, name: SystemName, environ: dict[str, str] | None = None) -> str:
    return str(HOSTS[host].place(System(name, HOME, environ or {})).path.relative_to("/"))


@pytest.mark.parametrize(("host", "linux", "macos", "windows"), rows(TABLES["places"]))
def test_a_host_has_its_file_there(host: str, linux: str, macos: str, windows: str) -> None:
    expected = [f"home/ada/{path}" for path in (linux, macos, windows)]
    assert [first(host, "linux"), first(host, "macos"), first(host, "windows")] == expected


@pytest.mark.parametrize(("host", "system", "environ", "path"), rows(TABLES["variables"]))
def test_a_variable_moves_the_file(host: str, system: SystemName, environ: dict[str, str], path: str) -> None:
    assert first(host, system, environ) == path


def test_the_packaged_claude_desktop_of_windows_comes_before_the_other_one(tmp_path: Path) -> None:
    packaged = tmp_path / "Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
    packaged.mkdir(parents=True)
    system = System("windows", HOME, {"LOCALAPPDATA": str(tmp_path)})

    assert [place.path.parent for place in HOSTS["claude-desktop"].user_places(system)] == [
        packaged,
        HOME / "AppData/Roaming/Claude",
    ]


def test_a_host_is_present_if_it_has_a_folder(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    system = System("linux", tmp_path, {})

    assert [host.id for host in HOSTS.values() if host.is_present(system)] == ["codex"]
