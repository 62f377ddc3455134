"""The `paths` command: every file and folder that codemode-server uses, for backups and for removing it."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import platformdirs

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import show
from codemode_server.config import load, locate
from codemode_server.domain.errors import SettingsError
from codemode_server.first_listing import state_folder
from codemode_server.private_files import data_folder
from codemode_server.settings import Settings
from codemode_server.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    found = paths(config_file(parsed))
    if parsed.json:
        show(json.dumps({name: str(path) for name, path, _ in found}, indent=2))
        return 0
    width = max(len(name) for name, _, _ in found)
    for name, path, what in found:
        show(escaped(f"{name:<{width}}  {path}{'' if path.exists() else '  (not there)'}"))
        show(f"{'':<{width}}  {what}")
    return 0


def paths(config: Path | None) -> list[tuple[str, Path, str]]:
    """Name, place and meaning of each. Creates nothing."""
    settings, found = Settings(), list[tuple[str, Path, str]]()
    try:
        found = [("file", locate(config).path, "the configuration in use; secrets may be in a .env beside it")]
        settings = load(config).settings
        found += [
            ("skills", Path(settings.state.skills), "your saved programs, which others import (state.skills)"),
            ("workflows", Path(settings.state.workflows), "your workflows (state.workflows)"),
        ]
    except SettingsError:  # `config check` says what is wrong; the folders of the user are the same
        pass
    name = "codemode-server"
    data = "the token for HTTP, trusted folders, and records of the files that `connect` changed"
    state = "database, sign-ins, secrets, workspaces, skills of programs, stored results and logs (state.dir)"
    return [
        *found,
        ("config", platformdirs.user_config_path(name, appauthor=False), "the user's configuration"),
        ("data", data_folder(), data),
        ("state", state_folder(settings), state),
        ("cache", platformdirs.user_cache_path(name, appauthor=False), "the compiled sandbox; it is made again"),
        ("temporary", Path(tempfile.gettempdir()) / "codemode-*", "files of running programs; gone when they end"),
    ]
