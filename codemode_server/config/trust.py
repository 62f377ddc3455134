"""Records which configuration files in project folders the person has trusted, by path and content.

A repository may hold an `upstream.yaml`, and hosts start us in the project's folder: without this, opening a cloned
repository would start the commands in it. What is trusted is the content of the file and of the `.env` beside it, as
they were read when the person agreed; any other content needs trust again. Programs that the file starts are not part
of it.

One private file for each, in the user's data folder, so that two commands at once can't undo each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from codemode_server.private_files import NotPrivate, data_folder, is_own, open_private, private_folder, replace_private

Digests: TypeAlias = Mapping[str, str]
"""SHA-256 of each file that was read, by path; empty where there was no such file."""


@dataclass(frozen=True, slots=True)
class TrustRecord:
    path: Path
    digests: Digests = field(repr=False)

    def covers(self, digests: Digests) -> bool:
        """True if all of these files have the trusted content."""
        return digests.items() <= self.digests.items()


def record_file(path: Path) -> Path:
    return _folder() / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.json"


def record(path: Path, digests: Digests) -> None:
    """Trusts a file with this content. Raises `OSError` if the record can't be written; `NotPrivate`: somebody else
    could write it."""
    folder = private_folder(_folder(), "$XDG_DATA_HOME")
    replace_private(folder / record_file(path).name, json.dumps({"path": str(path), "digests": dict(digests)}).encode())


def find(path: Path) -> TrustRecord | None:
    """The record of a file; None if there is none, or if somebody else could have written it."""
    found = _read(record_file(path))
    return found if found is not None and found.path == path else None


def is_trusted(path: Path, digests: Digests) -> bool:
    found = find(path)
    return found is not None and found.covers(digests)


def forget(path: Path) -> bool:
    """Revokes trust; False if there was none. Raises `OSError` if the record can't be removed."""
    try:
        record_file(path).unlink()
    except FileNotFoundError:
        return False
    return True


def records() -> list[TrustRecord]:
    """All of them, by path."""
    folder = _folder()
    files = folder.glob("*.json") if folder.is_dir() else ()
    return sorted((found for file in files if (found := _read(file)) is not None), key=lambda found: found.path)


def _folder() -> Path:
    # Not `state.dir`: otherwise the untrusted file could choose where trust is stored.
    return data_folder() / "trusted"


def _read(file: Path) -> TrustRecord | None:
    with suppress(OSError, NotPrivate, ValueError, TypeError, KeyError, AttributeError):
        folder = file.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or not is_own(folder) or not is_own(file.lstat()):
            return None
        with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
            data = json.load(opened)
        return TrustRecord(Path(data["path"]), {str(name): str(digest) for name, digest in data["digests"].items()})
    return None
