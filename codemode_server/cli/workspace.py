"""The `workspace` command: shows the size of the files that programs wrote, and removes them; a person at a terminal
who removes all of them ends what they carried from one session to others. It works without the database and without
free disk space, and may be used while programs run."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from codemode_server.cli.arguments import days
from codemode_server.cli.terminal import configuration, is_confirmed, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.features import create
from codemode_server.records.workspace_files import WorkspaceSummary, about, examine, folder, mib, old_entries
from codemode_server.support.text import one_line
from codemode_server.support.untrusted_files import counted_bytes, remove_entry, used_bytes

CLEAN_COMMAND = "codemode-server workspace clean"
FORGET_COMMAND = "`codemode-server sources forget workspace`"
_MAX_PATH_CHARACTERS = 120
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
    found = examine(workspace, older_than_days) if workspace is not None else WorkspaceSummary()
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


def description(loaded: LoadedSettings, workspace: Path, found: WorkspaceSummary) -> str:
    """The page of text for the person; names in it are escaped."""
    lines = about(loaded, workspace, found)
    if found.largest:
        lines += ["", "the largest files, with the day of their last change:"]
        for entry, size in found.largest:
            day = time.strftime("%Y-%m-%d", time.localtime(entry.status.st_ctime))
            lines.append(f"{mib(size):>10} MiB  {day}  {one_line(entry.path, _MAX_PATH_CHARACTERS)}")
        if found.files > len(found.largest):
            lines.append(f"… and {found.files - len(found.largest):,} more")
    return "\n".join(lines)


def clean(workspace: Path, older_than_days: float = 0) -> tuple[str, bool]:
    """Remove files that were not changed for so many days; gives a line about it, and whether all were removed."""
    removed, left = WorkspaceSummary(), 0
    names: Counter[int] = Counter()
    for entry in old_entries(workspace, older_than_days):
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
    return f"workspace: {mib(used)} of {most:,} MiB{remedy}"
