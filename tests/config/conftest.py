"""A folder with a configuration file in it, read as a host started in that folder would have it read."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from codemode_server.config import LoadedSettings, load
from codemode_server.domain.errors import SettingsError


class Folder:
    """Where one test's files are; the current folder of what is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    def load(self, text: str, *, name: str = "upstream.yaml", env: Mapping[str, str] | None = None) -> LoadedSettings:
        return load(self.write(name, text), environ=env or {}, cwd=self.path)

    def refusal(self, text: str, *, name: str = "upstream.yaml", env: Mapping[str, str] | None = None) -> list[str]:
        """What is wrong with the file, line by line: the whole of it is refused, or single servers are."""
        try:
            loaded = self.load(text, name=name, env=env)
        except SettingsError as error:
            return str(error).split("\n")
        assert loaded.server_errors, "the file was accepted"
        assert not set(loaded.invalid_servers) & set(loaded.settings.servers)
        return list(loaded.server_errors)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
