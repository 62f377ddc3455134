"""Private records about files of the person: which are trusted, and which `connect` changed. Each is a file of its own,
so that two commands at once can't undo each other."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from codemode_server.support.private_files import (
    NotPrivate,
    data_folder,
    is_own,
    open_private,
    private_folder,
    replace_private,
)
from codemode_server.support.untrusted_files import read_regular

_MAX_BYTES = 2**20
Digests: TypeAlias = Mapping[str, str]
"""SHA-256 of each file that was read, by path; empty where there was no such file."""


class FileRecord(BaseModel):
    model_config = ConfigDict(frozen=True)

    folder: ClassVar[str]
    """Not in `state.dir`: otherwise an untrusted file could choose where the record of its trust is."""
    path: Path

    @classmethod
    def place(cls, path: Path) -> Path:
        """Where the record of a file is."""
        return data_folder() / cls.folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.json"

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """The record of a file; None if there is none, or if somebody else could have written it."""
        found = cls._read(cls.place(path))
        return found if found is not None and found.path == path else None

    @classmethod
    def all(cls) -> list[Self]:
        """All records, by path."""
        files = (data_folder() / cls.folder).glob("*.json")
        return sorted((it for file in files if (it := cls._read(file)) is not None), key=lambda it: it.path)

    def write(self) -> None:
        """Raises `OSError` if it can't be written; `NotPrivate`: somebody else could write it."""
        place = self.place(self.path)
        folder = private_folder(place.parent, "$XDG_DATA_HOME")
        replace_private(folder / place.name, self.model_dump_json().encode())

    @classmethod
    def forget(cls, path: Path) -> bool:
        """Remove the record of a file; False if there was none. Raises `OSError` if it can't be removed."""
        try:
            cls.place(path).unlink()
        except FileNotFoundError:
            return False
        return True

    @classmethod
    def _read(cls, file: Path) -> Self | None:
        with suppress(OSError, NotPrivate, ValueError):
            folder = file.parent.lstat()
            if stat.S_ISDIR(folder.st_mode) and is_own(folder) and is_own(file.lstat()):
                with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
                    return cls.model_validate_json(opened.read())
        return None


class TrustRecord(FileRecord):
    """The person trusts a configuration file in a project folder, with the content of it and of the `.env` beside it as
    they were read when the person agreed. Without this, opening a cloned repository would start the commands in it."""

    folder: ClassVar[str] = "trusted"
    digests: dict[str, str] = Field(repr=False)

    def covers(self, digests: Digests) -> bool:
        """True if all of these files have the trusted content."""
        return digests.items() <= self.digests.items()


def digest_of_file(path: Path) -> str:
    """SHA-256; empty if there is no such file, or it can't be read."""
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES)).hexdigest()
    except OSError:
        return ""


def trust_own_change(file: Path, before: str, after: str) -> None:
    """Where the person trusts a configuration that uses this file, trust what we have written into it: the digests are
    those of `digest_of_file`."""
    for record in TrustRecord.all():
        if record.digests.get(str(file)) == before:
            with suppress(OSError, NotPrivate):  # else the person is asked to trust it
                TrustRecord(path=record.path, digests={**record.digests, str(file): after}).write()


def is_trusted(path: Path, digests: Digests) -> bool:
    found = TrustRecord.find(path)
    return found is not None and found.covers(digests)
