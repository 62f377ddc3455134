"""Records which hosts' files `connect` has changed, so that `disconnect` can restore them; one private file for each.

A record holds paths and digests only. What was in a host's file is in the backup beside it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from codemode_server.private_files import NotPrivate, open_private, private_folder, replace_private


class ConnectRecord(BaseModel):
    """Record of our changes to one file."""

    model_config = ConfigDict(frozen=True)

    file: Path
    before: str
    """SHA-256 before our first change; empty if there was no file."""
    after: str
    """SHA-256 after our last change."""
    backup: Path | None = None
    """The file's first content; None if there was no file."""
    removed: dict[str, Path] = {}
    """Servers that `connect` took out, each with the backup that has its entry."""
    folders: list[Path] = []
    """Folders that were made for the file, the innermost first."""
    is_mixed: bool = False
    """True if somebody else changed the file between two changes of ours, so that `backup` lacks that."""


def write(record: ConnectRecord) -> None:
    """Raises `OSError`, `NotPrivate`."""
    folder = private_folder(_folder(), "$XDG_DATA_HOME")
    replace_private(folder / _record_file(record.file).name, record.model_dump_json().encode())


def find(file: Path) -> ConnectRecord | None:
    """The record of a host's file; None if there is none, or if it is not this user's own."""
    with suppress(OSError, NotPrivate, ValidationError):
        with os.fdopen(open_private(_record_file(file), os.O_RDONLY), "rb") as opened:
            record = ConnectRecord.model_validate_json(opened.read())
        return record if record.file == file else None
    return None


def forget(file: Path) -> None:
    """Raises `OSError` if the record can't be removed."""
    _record_file(file).unlink(missing_ok=True)


def _record_file(file: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(file)).hexdigest()}.json"


def _folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("codemode-server", appauthor=False) / "connected"
