"""The `workspace` command: shows the size of the files that programs wrote, and removes them; a person at a terminal
who removes all of them ends what they carried from one session to others. It works without the database and without
free disk space, and may be used while programs run."""

from __future__ import annotations

import argparse
import heapq
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.cli.arguments import days
from codemode_server.cli.terminal import configuration, is_confirmed, show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.executions.workspace import FOLDERS, Workspace
from codemode_server.features import create
from codemode_server.startup.stores import state_folder
from codemode_server.support.text import escaped, one_line
from codemode_server.support.untrusted_files import Entry, counted_bytes, remove_entry, used_bytes, walk

CLEAN_COMMAND = "codemode-server workspace clean"
FORGET_COMMAND = "`codemode-server sources forget workspace`"
_MAX_LISTED = 20
_MAX_PATH_CHARACTERS = 120
_DAY_SECONDS = 86_400
_FULL_SHARE = 0.9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="print the largest files, and how much there is; the default")
    clean = actions.add_parser("clean", help="remove them; also while a product runs")
    clean.add_argument(
        "--older-than", type=days, default=0.0, metavar="DAYS", help="only what was not changed for so long"
    )
    clean.add_argument("--yes", action="store_true", help="remove what is shown without being asked")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, resolve=False)
    workspace = folder(loaded)
    is_cleaning = parsed.action == "clean"
    older_than_days = parsed.older_than if is_cleaning else 0.0
    found = examine(workspace, older_than_days) if workspace is not None else Found()
    if workspace is None or not found.files + found.folders:
        print("there is nothing to remove" if is_cleaning else "the workspace is empty")
        return 0
    show(description(loaded, workspace, found))
    if not is_cleaning:
        return 0
    is_all = not older_than_days
    if is_all and (sources := create("files_sources", loaded, otherwise=[])):
        show("\n".join(["", "it may hold what these have returned:", *sources]))
    if not parsed.yes and not is_confirmed(f"Remove {found.text}, for good? [y/N] "):
        print("nothing was removed")
        return 1
    line, is_done = clean(workspace, older_than_days)
    show(line)
    if is_all and is_done and sources:
        show(_forgotten(loaded) if not parsed.yes else f"what it held still counts as read: {FORGET_COMMAND} ends that")
    return 0 if is_done else 1


def _forgotten(loaded: LoadedSettings) -> str:
    try:
        create("forget_files", loaded)
    except CodemodeError as error:
        return f"what it held still counts as read, since it could not be forgotten: {error}"
    return "what it held no longer counts as read by other sessions"


@dataclass(slots=True)
class Found:
    files: int = 0
    folders: int = 0
    size: int = 0
    largest: list[tuple[int, int, Entry]] = field(default_factory=list)
    """The largest files: bytes, a number that orders files of the same size, and the file."""

    def add(self, entry: Entry, size: int) -> None:
        self.size += size
        self.folders += entry.is_folder
        self.files += not entry.is_folder

    @property
    def text(self) -> str:
        """`3 files and 1 folder, 12.0 MiB`."""
        folders = f" and {self.folders:,} folder{'s' * (self.folders != 1)}" if self.folders else ""
        return f"{self.files:,} file{'s' * (self.files != 1)}{folders}, {_mib(self.size)} MiB"


def folder(loaded: LoadedSettings) -> Path | None:
    """Where the workspace is; None if no program has run yet."""
    workspace = Workspace(state_folder(loaded.settings), local_principal(loaded.settings))
    if not workspace.path.is_dir():
        return None
    try:
        return workspace.make()
    except OSError as error:
        raise CodemodeError(f"the workspace {escaped(str(workspace.path))} can't be used: {error.strerror}") from error


def examine(workspace: Path, older_than_days: float = 0) -> Found:
    """Count the files that were not changed for so many days."""
    found = Found()
    names: Counter[int] = Counter()
    for entry in _old(workspace, older_than_days):
        if entry.is_emptied:
            continue
        size = counted_bytes(entry, names)
        found.add(entry, size)
        if not entry.is_folder:
            push = heapq.heappush if len(found.largest) < _MAX_LISTED else heapq.heappushpop
            push(found.largest, (size, found.files, entry))
    return found


def description(loaded: LoadedSettings, workspace: Path, found: Found) -> str:
    """The page of text for the person; names in it are escaped."""
    most = loaded.settings.limits.workspace_mb
    lines = [
        f"{escaped(str(workspace))}, which programs see as /workspace",
        f"{found.text}; programs may have {most:,} MiB (limits.workspace_mb)",
    ]
    if found.largest:
        lines += ["", "the largest files, with the day of their last change:"]
        for size, _, entry in sorted(found.largest, key=lambda it: (-it[0], it[1])):
            day = time.strftime("%Y-%m-%d", time.localtime(entry.status.st_ctime))
            lines.append(f"{_mib(size):>10} MiB  {day}  {one_line(entry.path, _MAX_PATH_CHARACTERS)}")
        if found.files > len(found.largest):
            lines.append(f"… and {found.files - len(found.largest):,} more")
    return "\n".join(lines)


def clean(workspace: Path, older_than_days: float = 0) -> tuple[str, bool]:
    """Remove files that were not changed for so many days; gives a line about it, and whether all were removed."""
    removed, left = Found(), 0
    names: Counter[int] = Counter()
    for entry in _old(workspace, older_than_days):
        size = entry.size if entry.is_folder else counted_bytes(entry, names)
        if not remove_entry(entry):
            left += not entry.is_folder
            continue
        removed.add(entry, size)
    return f"removed {removed.text}" + (f"; {left:,} could not be removed" if left else ""), left == 0


def status_line(loaded: LoadedSettings) -> str:
    """How full the workspace is, with the command that empties it if it is nearly full."""
    workspace = folder(loaded)
    used = used_bytes(workspace) if workspace is not None else 0
    most = loaded.settings.limits.workspace_mb
    remedy = f"; `{CLEAN_COMMAND}` removes the files" if used > _FULL_SHARE * most * 2**20 else ""
    return f"workspace: {_mib(used)} of {most:,} MiB{remedy}"


def _old(workspace: Path, days: float) -> Iterator[Entry]:
    """By ctime, which no program can set; a folder's as it was before anything in it was removed."""
    until = time.time() - days * _DAY_SECONDS
    for entry in walk(workspace):
        is_ours = entry.above is None and entry.name in FOLDERS and entry.is_folder  # every workspace has them
        if not is_ours and (not days or entry.status.st_ctime < until):
            yield entry


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"
