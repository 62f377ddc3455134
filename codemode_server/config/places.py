"""Finds the configuration file: `--config PATH`, else `$CODEMODE_CONFIG`, else `upstream.yaml` in the current folder,
else in the user's configuration folder. The current folder may be a repository that somebody else wrote, so its file is
used only if the person has trusted it."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from codemode_server.domain.errors import SettingsError
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.untrusted_files import read_regular

MAX_BYTES = 2**20
"""Maximum size of a configuration and of its `.env`."""
NAME = "upstream.yaml"
VARIABLE = "CODEMODE_CONFIG"

Stamp: TypeAlias = tuple[FileStamp, ...]
"""Time, size and inode of each watched file, or none where there is no such file."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that exists or was requested."""

    path: Path
    is_in_current_folder: bool = False
    """Found in the current folder, so that it needs the person's trust."""


def asked_for(
    path: Path | None, environ: Mapping[str, str], cwd: Path, *, must_exist: bool = True
) -> ConfigFile | None:
    """The file that `--config` or the variable names; None if neither is set. Raises `SettingsError` if it `must_exist`
    and does not."""
    given, by = (path, "--config") if path else (environ.get(VARIABLE), f"${VARIABLE}")
    if not given:
        return None
    place = ConfigFile(Path(os.path.normpath(cwd / with_home(given))))
    if must_exist and place.path.is_dir():
        raise SettingsError(f"{given}: is a folder; give the file ({by}), for instance {place.path / NAME}")
    if must_exist and not place.path.exists():
        command = f"codemode-server init --config {shlex.quote(str(given))}"
        raise SettingsError(f"{given}: there is no such file ({by}); correct the path, or run `{command}`")
    return place


def with_home(path: str | Path) -> Path:
    """The path with `~` expanded; unchanged if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def in_folder(folder: Path) -> ConfigFile | None:
    folder = Path(os.path.realpath(folder))
    if not (folder / NAME).is_file():
        return None
    return ConfigFile(folder / NAME, is_in_current_folder=folder != Path(os.path.realpath(user_file().parent)))


def user_file() -> Path:
    """The path of the user's own file, which may not exist."""
    from platformdirs import user_config_path

    return user_config_path("codemode-server", appauthor=False) / NAME


def start_folder(base_dir: Path) -> Path:
    """Where a server starts that nothing gives a folder: beside its file, but never in the user's configuration folder,
    in which there are secrets."""
    return base_dir if base_dir != user_file().parent else with_home("~")


def host_folder(base_dir: Path, folder: str) -> str:
    """The folder in which to start a server that depends on its host's `folder`. If that is the root of a disk, where
    applications start us, or not known, as over HTTP, the server starts as any other."""
    path = Path(folder)
    return str(start_folder(path if path.is_absolute() and path.parent != path else base_dir))


def current_folder() -> Path:
    """Where this process works; the root of the disk if that folder is gone, as that of the host which started the
    running server may be. No project has its configuration there."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def stamp_of(*files: Path) -> Stamp:
    return tuple(map(FileStamp.at, files))


def digest(content: bytes | None) -> str:
    """SHA-256; empty if there is no such file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """Digests of a file before and after it was written by us; empty where there was none."""

    before: str
    after: str


def read_source(path: Path, digests: dict[str, str]) -> bytes:
    """The content of a configuration or its `.env`, whose digest is added: what is digested is what is used."""
    digests[str(path)] = ""
    content = read_regular(path, MAX_BYTES)
    digests[str(path)] = digest(content)
    return content
