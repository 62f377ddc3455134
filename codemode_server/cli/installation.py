"""The commands `init`, `paths`, `logs` and `completion`, about the product as it is installed."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs

from codemode_server.cli.arguments import config_file, count
from codemode_server.cli.logs import FILE_NAME, FOLDER_NAME, OLD_FILES
from codemode_server.cli.terminal import configuration, show
from codemode_server.config import load, locate, saving
from codemode_server.config.hosts import HOSTS, System
from codemode_server.config.places import ConfigFile, user_file
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError
from codemode_server.startup.stores import state_folder
from codemode_server.support.private_files import data_folder, open_private
from codemode_server.support.text import escaped

_LINES = 50
_NEXT = """
next:
  codemode-server import        takes over the servers that your hosts have
  codemode-server add NAME …    adds one
  codemode-server status        connects to all of them

then have your hosts start this server, in place of the others (`--print` shows the entry for a file of your own):"""


def run_init(parsed: argparse.Namespace) -> int:
    given = config_file(parsed)
    with saving.locked(ConfigFile(Path(given).expanduser().absolute() if given else user_file())) as file:
        if is_new := file.is_new:
            file.save()
    show(f"written: {file.place.path}" if is_new else f"{file.place.path} is there already; it stays as it is")
    system = System.current()
    present = [host for host in HOSTS.values() if host.is_present(system)]
    option = f" --config {shlex.quote(str(file.place.path))}" if given else ""
    names = " ".join(host.id for host in present)
    none = f"HOST{option}    no host was found here; HOST is one of {', '.join(HOSTS)}"
    show(f"{_NEXT}\n  codemode-server connect {f'{names}{option}' if names else none}")
    return 0


def add_arguments_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_paths(parsed: argparse.Namespace) -> int:
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
    cache = "the compiled sandbox, and the packages for programs; both are made again"
    return [
        *found,
        ("config", platformdirs.user_config_path(name, appauthor=False), "the user's configuration"),
        ("data", data_folder(), data),
        ("state", state_folder(settings), state),
        ("cache", platformdirs.user_cache_path(name, appauthor=False), cache),
        ("temporary", Path(tempfile.gettempdir()) / "codemode-*", "files of running programs; gone when they end"),
    ]


def add_arguments_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=count, default=_LINES, metavar="COUNT", help=f"default {_LINES}")
    parser.add_argument("--path", action="store_true", help="only print where the log is")


def run_logs(parsed: argparse.Namespace) -> int:
    settings = configuration(parsed, require_trust=False, resolve=False).settings
    place = state_folder(settings) / FOLDER_NAME / FILE_NAME
    if parsed.path:
        show(str(place))
        return 0
    for line in last_lines(place, parsed.lines):
        show(line)
    if not place.exists():
        show(f"nothing is logged yet; the log will be {place}")
    return 0


def last_lines(place: Path, limit: int) -> list[str]:
    """The newest lines, the newest last, also of the files that were renamed."""
    lines: list[str] = []
    for path in [place, *(place.with_name(f"{place.name}.{number}") for number in range(1, OLD_FILES + 1))]:
        if len(lines) < limit:
            with suppress(FileNotFoundError), os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
                lines = [*file.read().decode("utf-8", "replace").splitlines(), *lines]
    return lines[-limit:]


def add_arguments_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "powershell"), help="the shell that reads it")


def run_completion(parsed: argparse.Namespace) -> int:
    import shtab

    from codemode_server.cli import whole_parser

    show(shtab.complete(whole_parser(), shell=parsed.shell).rstrip("\n"))
    return 0
