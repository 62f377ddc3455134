"""Records which hosts' files `connect` has changed, so that `disconnect` can restore them; one private file for each.

A record holds paths and digests only. What was in a host's file is in the backup beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codemode_server.config.host_files.spans import Path as KeyPath
from codemode_server.private_files import NotPrivate, open_private, private_folder, replace_private


@dataclass(frozen=True, slots=True)
class Removed:
    """One entry that `connect` took out."""

    path: KeyPath
    backup: str
    """The file that still has it."""


@dataclass(frozen=True, slots=True)
class ConnectRecord:
    """What was done to one file."""

    file: str
    entry: KeyPath
    """Our entry."""
    before: str
    """SHA-256 before our first change; empty if there was no file."""
    after: str
    """SHA-256 after our last change."""
    backup: str
    """The file's first content; empty if there was no file."""
    made: KeyPath | None = None
    """The outermost mapping that was made for the entry."""
    removed: Sequence[Removed] = ()
    folders: Sequence[str] = ()
    """Folders that were made for the file, the innermost first."""
    is_mixed: bool = False
    """Whether somebody else has changed the file between two changes of ours, so that `backup` lacks that."""


def write(record: ConnectRecord) -> None:
    """Raises `OSError`, `NotPrivate`."""
    folder = private_folder(_folder(), "$XDG_DATA_HOME")
    replace_private(folder / _record_file(Path(record.file)).name, json.dumps(asdict(record)).encode())


def find(file: Path) -> ConnectRecord | None:
    """The record of a host's file; None if there is none, or if it is not this user's own."""
    with suppress(OSError, NotPrivate, ValueError, TypeError, KeyError, AttributeError):
        with os.fdopen(open_private(_record_file(file), os.O_RDONLY), "rb") as opened:
            data: dict[str, Any] = json.load(opened)
        if data["file"] != str(file):
            return None
        made = data["made"]
        removed = [Removed(tuple(it["path"]), it["backup"]) for it in data["removed"]]
        return ConnectRecord(
            file=data["file"],
            entry=tuple(data["entry"]),
            before=data["before"],
            after=data["after"],
            backup=data["backup"],
            made=None if made is None else tuple(made),
            removed=removed,
            folders=data["folders"],
            is_mixed=bool(data["is_mixed"]),
        )
    return None


def forget(file: Path) -> None:
    """Raises `OSError` if the record can't be removed."""
    _record_file(file).unlink(missing_ok=True)


def _record_file(file: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(file)).hexdigest()}.json"


def _folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("codemode-server", appauthor=False) / "connected"
