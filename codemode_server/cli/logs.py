"""The `logs` command: prints the product's own log, which products of this state folder write."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from codemode_server.cli.arguments import count
from codemode_server.cli.terminal import configuration, show
from codemode_server.first_listing import state_folder
from codemode_server.logs import FILE_NAME, FOLDER_NAME, OLD_FILES
from codemode_server.private_files import open_private

_LINES = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=count, default=_LINES, metavar="COUNT", help=f"default {_LINES}")
    parser.add_argument("--path", action="store_true", help="only print where the log is")


def run(parsed: argparse.Namespace) -> int:
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
